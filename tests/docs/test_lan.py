"""The page about a LAN: its configuration, its commands, and its script on a server of this machine."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from bussrv.server.configuration.config import Config
from bussrv.server.configuration.options import Options
from tests.docs.pages import blocks, rows
from tests.forked import ForkedServer

pytestmark = pytest.mark.processes

PAGE = "docs/how-to/lan.md"


def understood(arguments: list[str]) -> Config:
    options = Options()
    options.parseOptions(arguments)
    return options.config


def commands() -> list[list[str]]:
    """The arguments of ``bussrv`` in every command; those before it are for ``twistd``."""
    lines = "".join(blocks(PAGE, "console")).splitlines()
    assert all(re.match(r"\$ twistd (--(pid|log)file=\S+ )+bussrv ", line) for line in lines)
    return [shlex.split(line.partition(" bussrv ")[2]) for line in lines]


def test_the_configuration(tmp_path: Path) -> None:
    (text,) = blocks(PAGE, "toml")
    path = tmp_path / "bussrv.toml"
    path.write_text(text)
    (start, *_) = commands()
    config = understood([str(path) if each.endswith(".toml") else each for each in start])
    assert {name: where.rpartition("=")[2] for name, where in config.endpoints.items()} == dict.fromkeys(
        ("objects", "inbus", "spp"), "192.168.7.1"
    )
    assert config.settings.slow_spp == "coalesce"
    assert sorted(config.services) == ["bus/clock", "bus/statistics"]


def test_one_server_for_each_network() -> None:
    hall, yard = map(understood, commands()[1:])
    for config, address in ((hall, "192.168.7.1"), (yard, "10.0.0.1")):
        assert sorted(config.endpoints) == ["inbus", "objects"]
        assert all(where.endswith(f":interface={address}") for where in config.endpoints.values())
    assert hall.journal is not None
    assert yard.journal is not None
    assert hall.journal != yard.journal
    assert yard.link == ("tcp:192.168.7.1:7890",)
    assert [str(network) for network in hall.settings.link_allow] == ["192.168.7.1/32"]


def test_the_script(tmp_path: Path) -> None:
    (script,) = blocks(PAGE, "python")
    with ForkedServer(tmp_path / "journal") as server:
        for shown, here in (
            ("192.168.7.1", "127.0.0.1"),
            ("ObjectsClient(SERVER)", f"ObjectsClient(SERVER, {server.port('objects')})"),
            ("7222", str(server.addresses["inbus"][1])),
        ):
            assert shown in script
            script = script.replace(shown, here)
        ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stdout, ran.stderr) == ("b'on'\nb'21.5 C'\n", "")


def test_the_limits_are_the_defaults() -> None:
    defaults = {row[0]: row[1].strip("`") for row in rows("docs/reference/options.md") if row[0].startswith("`--")}
    shown = {row[2]: row[1] for row in rows(PAGE) if row[-1].startswith("`--")}
    assert len(shown) == 8
    for option, text in shown.items():
        number = int(text.split()[0].replace(",", "")) << (20 if text.endswith("MiB") else 0)
        assert number == int(defaults[option]), option
