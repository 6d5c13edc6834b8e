"""``bussrv init``: all of a server's files or none, private where they have to be, and usable as they are."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from bussrv import profiles
from bussrv.cli.commands.set_up import init as command
from bussrv.cli.main import main
from bussrv.net.tls.ports import TlsPort
from bussrv.net.transport.endpoint_parts import take_apart
from bussrv.policy.logins.users import check_user
from bussrv.server.configuration import config
from bussrv.server.configuration.plugins import installed
from bussrv.server.configuration.sources import of_command_line
from bussrv.starter import directory as module
from bussrv.starter import texts
from bussrv.starter.directory import NewServer, make
from tests.tables import each_row

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)
PROFILES = {"ann.toml", "ben.toml", "operator.toml"}
PRIVATE = {"ca.key", "server.key", "users", "journal.key", *PROFILES}
PUBLIC = {"ca.pem", "server.pem", "policy.toml", "bussrv.toml", "bussrv.service", "journal.key.pub"}


def wanted(**changes: object) -> NewServer:
    about = {
        "names": ["hall.example", "192.168.7.1", "::1"],
        "users": ["ann", "ben"],
        "interface": "",
        "programs": Path("/opt/bussrv/bin"),
        "system_user": "bussrv",
    }
    return NewServer(**{**about, **changes})


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Makes empty directories. Secrets are hashed at once."""
    monkeypatch.setattr(module, "user_line", lambda user, secret: f"{check_user(user)}:{len(secret)}")
    return lambda: tmp_path_factory.mktemp("place")


@pytest.mark.usefixtures("cheap_secrets")
def test_every_file_has_the_mode_that_it_needs_whatever_the_mask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        issued = make(tmp_path / "hall", wanted(), NOW)
    finally:
        os.umask(before)
    files = [path for path in (tmp_path / "hall").rglob("*") if path.is_file()]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files}
    assert modes == {**dict.fromkeys(PRIVATE, 0o600), **dict.fromkeys(PUBLIC, 0o644)}
    assert stat.S_IMODE((tmp_path / "hall").stat().st_mode) == 0o755
    assert issued.keys() == {"ann", "ben", "operator"}
    assert len(set(issued.values())) == 3
    for path in files:
        assert not any(secret in path.read_text() for secret in issued.values()), path


@pytest.mark.usefixtures("cheap_secrets")
def test_the_certificate_is_good_for_every_name_and_for_no_other(tmp_path: Path) -> None:
    make(tmp_path, wanted(), NOW)
    authority, server = (x509.load_pem_x509_certificate((tmp_path / f"{n}.pem").read_bytes()) for n in ("ca", "server"))

    def verify(name: x509.DNSName | x509.IPAddress) -> None:
        builder = PolicyBuilder().store(Store([authority])).time(NOW.replace(tzinfo=None))
        builder.build_server_verifier(name).verify(server, [])

    verify(x509.DNSName("hall.example"))
    for each in ("192.168.7.1", "::1"):
        verify(x509.IPAddress(ip_address(each)))
    with pytest.raises(x509.verification.VerificationError):
        verify(x509.DNSName("yard.example"))


@each_row("name", ["plain", "with space", "a:b=c", "100% $HOME", 'quo"te', "back\\slash", "kühl", "tick'"])
def test_the_configuration_names_its_files_wherever_they_are(fresh: Callable[[], Path], name: str) -> None:
    here = fresh() / name
    make(here, wanted(interface="::1"), NOW)
    built = config.build(
        of_command_line({"config": str(here / texts.CONFIGURATION)}), installed().formats, installed().services
    )
    assert built.endpoints.keys() == {"objects", "spp"}
    for format_name, endpoint in built.endpoints.items():
        port = TlsPort(take_apart(f"{endpoint}:backlog=5"))
        assert (port.files.key, port.files.certificate) == (here / texts.SERVER_KEY, here / texts.SERVER)
        assert (port.port, port.interface) == (texts.PORTS[format_name], "::1")
    assert built.auth == (f"users:{here / texts.USERS}",)
    assert built.policy == here / texts.POLICY
    assert built.journal is not None
    assert (built.journal, built.journal_key) == (here / texts.JOURNAL, here / texts.JOURNAL_KEY)


@each_row("user", ["ann", "a/b", "..", 'q"uote', "kühl", "a=b c"])
def test_a_profile_is_that_of_its_user(fresh: Callable[[], Path], user: str) -> None:
    here, home = fresh(), fresh()
    make(here, wanted(names=["::1"], users=[user]), NOW)
    (home / "bussrv").mkdir()
    (home / "bussrv" / "profiles.toml").write_bytes((here / "profiles" / texts.profile_name(user)).read_bytes())
    (home / "bussrv" / "profiles.toml").chmod(0o600)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CONFIG_HOME", str(home))
        found = profiles.read(user)
    assert found is not None
    assert found.addresses == {"objects": "tls:[::1]:7890", "spp": "tls:[::1]:3002"}
    assert found.credentials["user"] == user
    assert found.files == {"ca": home / "bussrv" / "ca.pem"}


def test_a_unit_takes_every_path_as_it_is() -> None:
    text = texts.unit(Path('/srv/a b/100% "$x"'), Path("/home/ann/venv/bin"), "ann")
    (line,) = re.findall(r"ExecStart=.*", text)
    assert line.startswith("ExecStart=/home/ann/venv/bin/twistd -n ")
    assert '--config "/srv/a b/100%% \\"$$x\\"/bussrv.toml" --journal' in line
    assert "ExecReload=/bin/kill -HUP $MAINPID" in text
    assert "\nProtectHome=read-only\n" in text
    assert "\nProtectHome=yes\n" in texts.unit(Path("/etc/bussrv"), Path("/opt/bussrv/bin"), "bussrv")


@each_row("name", sorted({*PRIVATE, *PUBLIC, "journal", "profiles"} - PROFILES))
def test_nothing_is_written_over(fresh: Callable[[], Path], name: str, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path = fresh()
    (tmp_path / name).symlink_to(tmp_path / "nowhere")
    assert main(["init", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert f"has {name} already" in said.err
    assert [path.name for path in tmp_path.iterdir()] == [name]


@each_row("failing", range(12))
def test_after_a_fault_nothing_is_left(fresh: Callable[[], Path], failing: int) -> None:
    """At the file of that number; the last one is the key of the journal."""
    tmp_path = fresh()
    calls = iter(range(12))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module.os, "fsync", lambda _: _fail_at(calls, failing))
        patched.setattr(module, "generate", lambda path: _fail_at(calls, failing))
        assert main(["init", str(tmp_path / "hall")]) == 1
    assert list(tmp_path.iterdir()) == []


def _fail_at(calls: Iterator[int], failing: int) -> None:
    if next(calls) == failing:
        raise OSError(28, "No space left on device")


@each_row(
    ("arguments", "said"),
    [
        (["--name", "no name"], "'no name' is neither a host name nor an IP address"),
        (["--name=-x"], "'-x' is neither a host name nor an IP address"),
        (["--user", "#ann"], "begins with neither a space nor a #"),
        (["--interface", "hall"], "'hall' does not appear to be an IPv4 or IPv6 address"),
    ],
)
def test_what_makes_no_sense_makes_nothing(
    fresh: Callable[[], Path], capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    tmp_path = fresh()
    assert main(["init", str(tmp_path / "hall"), *arguments]) == 1
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("cheap_secrets")
def test_who_uses_a_place_that_the_unit_hides_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_programs", lambda: Path("/opt/bussrv/bin"))
    for hidden, is_told in ((tmp_path.parent, True), (tmp_path / "seen" / "x", False)):
        monkeypatch.setattr(command, "HIDDEN", (hidden,))
        assert main(["init", str(tmp_path / f"{is_told}")]) == 0
        sentence = f"does not let the server see {tmp_path / f'{is_told}'}. For systemd"
        assert (sentence in capsys.readouterr().out) is is_told


def test_a_certificate_is_renewed_in_its_place(fresh: Callable[[], Path], capsys: pytest.CaptureFixture[str]) -> None:
    place = fresh() / "hall"
    make(place, wanted(), NOW)
    before = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
    assert main(["cert", "renew", str(place / "server.pem")]) == 0
    after = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
    assert {name for name in after if after[name] != before.get(name)} == {"server.pem"}
    assert stat.S_IMODE((place / "server.pem").stat().st_mode) == 0o644
    assert "server.pem is valid until" in capsys.readouterr().out
    for arguments, said in (
        ((place / "ca.pem", "--ca", place / "server.pem"), "the key is not that of the authority"),
        ((place / "nowhere.pem",), "cannot read"),
        ((place / "server.pem", "--name", "no name"), "neither a host name nor an IP address"),
    ):
        assert main(["cert", "renew", *map(str, arguments)]) == 1
        assert said in capsys.readouterr().err
    assert (place / "server.pem").read_bytes() == after["server.pem"]
    assert not (place / "server.pem.new").exists()
