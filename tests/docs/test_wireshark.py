"""The page on Wireshark: its commands are run as written, and its filters are known."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from bussrv.client import inbus
from tests.docs.commands import says
from tests.docs.devices import wait_until_subscribed
from tests.docs.pages import ROOT, blocks, rows
from tests.docs.test_how_to import ENVIRONMENT, commands
from tests.forked import ForkedServer
from tests.wireshark.shark import CAPTURES, lines, needs_tshark

NAME = "docs/how-to/wireshark.md"

SCRIPT = "-X lua_script:contrib/wireshark/bussrv.lua"

pytestmark = [needs_tshark, pytest.mark.processes]


def test_its_commands_say_what_it_says(tmp_path: Path) -> None:
    live, through = blocks(NAME, "sh")
    (block,) = blocks(NAME, "console")
    (tap, nothing), *shown = commands(block)
    (tmp_path / "contrib").symlink_to(ROOT / "contrib")
    with ForkedServer(tmp_path / "journal", ["--server-id", "hall"]) as server:
        server_at = f"bussrv tap --server 127.0.0.1:{server.port('admin')} --count 1"
        with inbus.InbusSubscriber("doorbell", server=server.addresses["inbus"]) as device:
            wait_until_subscribed("doorbell", server.addresses["inbus"], device)
            assert tapped(tap.replace("bussrv tap", server_at), server, device, tmp_path) == nothing
            # There is no screen.
            piped = through.replace("bussrv tap", server_at).replace("wireshark -k -i -", f"tshark {SCRIPT} -r -")
            assert "doorbell  text/plain; charset=UTF-8  4 bytes" in tapped(piped, server, device, tmp_path)
    assert (tmp_path / "doorbell.pcapng").stat().st_mode & 0o777 == 0o600
    recorded = live.replace("-i eth0", f"-r {CAPTURES / 'spp.pcapng'}")
    for command, wanted in (*shown, (recorded, "…SPP…offer  radio…")):
        ran = subprocess.run(command, shell=True, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
        assert says(ran.stdout, wanted), (ran.stdout, ran.stderr)


def tapped(command: str, server: ForkedServer, device: inbus.InbusSubscriber, place: Path) -> str:
    """What a command with a tap prints, while a doorbell rings."""
    with subprocess.Popen(
        command, shell=True, cwd=place, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as tapping:
        while tapping.poll() is None:
            inbus.publish("doorbell", b"ring", server=server.addresses["inbus"])
            device.receive(10)
        shown = tapping.communicate()[0]
    assert tapping.returncode == 0
    return shown


def test_its_filters_are_known() -> None:
    filters = re.findall(r"^`(.*)`$", "\n".join(row[0] for row in rows(NAME)[1:]), re.MULTILINE)
    assert len(filters) == 7
    found = {each: len(lines(CAPTURES / "objects.pcapng", each)) for each in filters}
    assert all(count for each, count in found.items() if "> 1" not in each), found
