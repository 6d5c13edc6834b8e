"""``bussrv init --uplink``: the units, the token, the rule and the socket of an uplink beside a new server."""

from __future__ import annotations

import shutil
import subprocess
from datetime import datetime, timezone
from pathlib import Path

import pytest

from bussrv.cli.main import main
from bussrv.errors import ConfigError
from bussrv.policy.logins.tokens import TOKENS_FILE, digest
from bussrv.policy.permissions.file import parse_policy
from bussrv.server.configuration import config
from bussrv.server.configuration.plugins import installed
from bussrv.server.configuration.sources import of_command_line
from bussrv.starter import texts, uplink
from bussrv.starter.directory import MAX_SOCKET, NewServer, make
from bussrv.starter.uplink import NewUplink
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("cheap_secrets")

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)
NEW = NewUplink(url="nats://hall.example,attic.example:4222", net="site", keep=["tv", "a b/100% $x"])
OWN = {uplink.UNIT: 0o644, uplink.TOKEN: 0o600, uplink.TOKENS: 0o600}


def made(directory: Path, new: NewUplink | None = NEW, users: tuple[str, ...] = ("ann",)) -> Path:
    programs, names = Path("/opt/bussrv/bin"), ["localhost"]
    make(
        directory,
        NewServer(names=names, users=users, interface="", programs=programs, system_user="u", uplink=new),
        NOW,
    )
    return directory


def test_an_uplink_gets_three_more_files_and_only_two_are_secret(short_path: Path) -> None:
    with_one, without = made(short_path / "with"), made(short_path / "without", None)
    names = {each.name for each in with_one.iterdir()}
    assert names - {each.name for each in without.iterdir()} == OWN.keys()
    assert {name: (with_one / name).stat().st_mode & 0o777 for name in OWN} == OWN
    token = (with_one / uplink.TOKEN).read_text()
    assert token.endswith("\n")
    assert [each.name for each in with_one.iterdir() if each.is_file() and token.strip() in each.read_text()] == [
        uplink.TOKEN
    ]
    for name, says in ((texts.CONFIGURATION, "\nservers = "), (texts.POLICY, "\nlink = ")):
        assert says in (with_one / name).read_text()
        assert says not in (without / name).read_text()


def test_the_server_knows_the_token_and_has_a_socket_of_its_own(short_path: Path) -> None:
    here = made(short_path / "a:b=c")
    built = config.build(
        of_command_line({"config": str(here / texts.CONFIGURATION)}), installed().formats, installed().services
    )
    assert built.auth == (f"users:{here / texts.USERS}", f"tokens:{here / uplink.TOKENS}")
    assert built.endpoints["servers"] == f"unix:{short_path}/a\\:b\\=c/servers.sock:mode=600"
    uses = TOKENS_FILE.read(here / uplink.TOKENS)
    assert uses[digest((here / uplink.TOKEN).read_text().strip())].user == uplink.USER


def test_the_policy_lets_the_uplink_link_and_nobody_else(short_path: Path) -> None:
    path = made(short_path) / texts.POLICY
    rules = parse_policy(path.read_text(), path, ["objects"])

    def may(user: str, action: str, target: str) -> bool:
        return rules.permissions(user, "unix", "objects").may(action, target)

    assert may("uplink", "link", "uplink/site")
    assert not may("uplink", "link", "uplink/other")
    assert not may("ann", "link", "uplink/site")
    for action in ("tell", "provide", "publish", "send", "request", "address", "observe", "watch"):
        assert may("uplink", action, "garden/door"), action
    assert not may("uplink", "admin", "read")


def test_each_unit_says_the_same_socket_and_the_same_user(short_path: Path) -> None:
    here = made(short_path)
    server, own = ((here / name).read_text() for name in (texts.UNIT, uplink.UNIT))
    assert "--servers unix:/run/bussrv/servers.sock:mode=600\n" in server
    assert "RuntimeDirectory=bussrv\nRuntimeDirectoryMode=0700\n" in server
    assert "--bus unix:/run/bussrv/servers.sock " in own
    assert own.startswith("[Unit]\nDescription=bussrv uplink to NATS\nAfter=bussrv.service\nBindsTo=bussrv.service\n")
    assert "ExecStart=/opt/bussrv/bin/bussrv uplink nats://hall.example,attic.example:4222 --net site " in own
    assert own.count('--keep tv --keep "a b/100%% $$x"\n') == 1
    assert "\nRestart=always\n" in own
    for line in ("User=u", "UMask=0077", "ProtectSystem=strict", "CapabilityBoundingSet=", "NoNewPrivileges=yes"):
        assert f"\n{line}\n" in server
        assert f"\n{line}\n" in own
    plain = made(short_path / "plain", None)
    without = (plain / texts.UNIT).read_text()
    assert "Runtime" not in without
    assert "--servers" not in without


@pytest.mark.processes
def test_systemd_accepts_both_units(short_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd-analyze")
    assert main(["init", str(short_path / "hall"), "--uplink", NEW.url, "--keep", NEW.keep[1]]) == 0
    units = [short_path / "hall" / name for name in (texts.UNIT, uplink.UNIT)]
    ran = subprocess.run([program, "verify", *units], capture_output=True, text=True, check=False)
    # What it says of other units of this machine does not count.
    assert [line for line in ran.stderr.splitlines() if "bussrv" in line] == []
    assert ran.returncode == 0, ran.stderr
    assert "systemctl enable --now bussrv bussrv-uplink\n" in capsys.readouterr().out


@each_row(
    ("arguments", "said"),
    [
        (["--uplink", "kafka://hall.example:9092"], "is no URL of NATS"),
        (["--uplink", "nats://ann:secret@hall.example"], "is no URL of NATS"),
        (["--uplink", NEW.url, "--net", "a b"], "--net a b: the name of a net has"),
        (["--uplink", NEW.url, "--keep", "a/#"], "--keep a/#: a pattern"),
        (["--uplink", NEW.url, "--user", "uplink"], "uplink is the user that the uplink is"),
    ],
)
def test_what_an_uplink_cannot_use_makes_nothing(
    short_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["init", str(short_path / "hall"), *arguments]) == 1
    assert said in capsys.readouterr().err
    assert list(short_path.iterdir()) == []


def test_a_socket_has_a_short_path(short_path: Path) -> None:
    longest = MAX_SOCKET - len(str(short_path / "x" / texts.SOCKET)) + 1
    made(short_path / ("x" * longest))
    with pytest.raises(ConfigError, match=r"is too long for a socket, at most 107 bytes"):
        made(short_path / ("x" * (longest + 1)))


@each_row("option", ["--net", "--keep"])
def test_options_of_an_uplink_need_one(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "/nowhere/hall", option, "tv"]) == 2
    assert "--net and --keep go with --uplink" in capsys.readouterr().err
