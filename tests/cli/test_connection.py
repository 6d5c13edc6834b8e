"""Which server a command talks to, and who is told which secret."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from bussrv import profiles
from bussrv.cli.connection import ConnectionOptions
from bussrv.errors import ConfigError
from bussrv.profiles import ServerAddress as Address
from tests.cli.conftest import run

PROFILES = """
[default]
server = "hall.example"
ca = "ca.pem"
user = "ann"
secret = "s3cret"

[cellar]
admin = "https://[fd00::7]:8443"
objects = "cellar.example:7000"
token = "t0ken"

[cellar-lan]
server = "192.168.7.2"
token = "t0ken"

[here]
server = "127.0.0.1:7281"
token = "t0ken"
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("BUSSRV_SERVER", raising=False)
    monkeypatch.delenv("BUSSRV_PROFILE", raising=False)
    (tmp_path / "bussrv").mkdir()
    write(tmp_path, PROFILES)
    return tmp_path


def write(home: Path, text: str, mode: int = 0o600) -> Path:
    file = home / "bussrv/profiles.toml"
    file.write_text(text)
    file.chmod(mode)
    return file


def connection(**given: Any) -> ConnectionOptions:
    names = ("server", "profile", "ca", "certificate", "key", "user", "secret_file", "token_file")
    return ConnectionOptions(**{**dict.fromkeys(names), "tls": False, "insecure": False, "timeout": 1.0, **given})


@pytest.mark.parametrize(
    ("text", "kind", "address"),
    [
        ("hall", "objects", Address("hall", 7890)),
        ("hall:1", "spp", Address("hall", 1)),
        ("tls:hall.example", "business", Address("hall.example", 7891, True)),
        ("[::1]:7", "inbus", Address("::1", 7)),
        ("https://hall.example/", "admin", Address("hall.example", 7280, True)),
        ("https://hall.example:443/bus/", "admin", Address("hall.example", 443, True, path="/bus")),
        ("http://127.0.0.1:80", "admin", Address("127.0.0.1", 80, False)),
        ("unix:/run/bussrv/admin", "admin", Address("/run/bussrv/admin", 0, is_unix=True)),
    ],
)
def test_addresses(text: str, kind: str, address: Address) -> None:
    assert Address.parse(text, kind) == address


@pytest.mark.parametrize(
    "text",
    ["", "hall:0", "hall:65536", "http://hall", "unix:/x", "hall/x", "tls:hall/x", "https://hall/x?y", "::1", "a:b:1"],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no address|is an address of the admin interface"):
        Address.parse(text, "objects")


@pytest.mark.parametrize(
    ("given", "variables", "kind", "address", "told"),
    [
        ({}, {}, "objects", "hall.example:7890", "s3cret"),
        ({}, {}, "admin", "hall.example:7280", "s3cret"),
        # Nobody else is told the secrets of a profile.
        ({"server": "10.0.0.9"}, {}, "objects", "10.0.0.9:7890", None),
        ({}, {"BUSSRV_SERVER": "10.0.0.9:99"}, "admin", "10.0.0.9:99", None),
        # A port in the variable is that of the admin interface.
        ({}, {"BUSSRV_SERVER": "10.0.0.9:99"}, "spp", "10.0.0.9:3002", None),
        ({"profile": "here"}, {"BUSSRV_SERVER": "10.0.0.9"}, "admin", "127.0.0.1:7281", "t0ken"),
        ({"profile": "cellar"}, {}, "admin", "[fd00::7]:8443", "t0ken"),
        ({"profile": "cellar-lan"}, {}, "inbus", "192.168.7.2:7222", None),
        ({}, {"BUSSRV_PROFILE": "here"}, "objects", "127.0.0.1:7890", "t0ken"),
        ({"server": "127.0.0.1:5"}, {"BUSSRV_PROFILE": "here"}, "objects", "127.0.0.1:5", None),
    ],
)
def test_who_is_asked_and_told_what(
    given: dict[str, Any],
    variables: dict[str, str],
    kind: str,
    address: str,
    told: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = connection(**given).place(kind)
    assert str(found.address) == address
    assert (found.credentials.secret or found.credentials.token) == told


def test_the_path_of_the_admin_interface_is_that_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSSRV_SERVER", "https://hall.example:443/bus")
    assert str(connection().place("admin").address) == "hall.example:443/bus"
    assert str(connection().place("objects").address) == "hall.example:7890"


def test_the_scheme_of_an_address_decides_about_tls(home: Path) -> None:
    """Not a file for TLS that the profile has for its other addresses."""
    write(home, '[mixed]\nadmin = "http://127.0.0.1:7280"\nobjects = "hall:7890"\nspp = "tcp:hall"\nca = "ca.pem"\n')
    mixed = {kind: connection(profile="mixed").place(kind).tls for kind in ("admin", "objects", "spp")}
    assert mixed["admin"] is mixed["spp"] is None
    assert mixed["objects"] is not None
    for given in ({"tls": True}, {"ca": Path("ca.pem")}):
        with pytest.raises(ConfigError, match=r"127\.0\.0\.1:7280 is an address without TLS, and --\S+"):
            connection(profile="mixed", **given).place("admin")


def test_relative_files_of_a_profile_are_beside_it(home: Path) -> None:
    tls = connection().place("objects").tls
    assert tls is not None
    assert tls.ca == home / "bussrv/ca.pem"


def test_secrets_do_not_cross_the_network_in_the_clear(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"cellar\.example:7000 is on another machine, and not reached over TLS"):
        connection(profile="cellar").place("objects")
    assert connection(profile="cellar", insecure=True).place("objects").credentials.token == "t0ken"
    assert connection(profile="cellar", tls=True).place("objects").tls is not None


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (PROFILES, 0o640, "others may use it: chmod 600"),
        (PROFILES, 0o604, "others may use it: chmod 600"),
        ("[default]\nserver = 7\n", 0o600, "server is not a text"),
        ("[default]\nport = '7'\n", 0o600, "there is no key 'port'"),
        ("server = 'hall'\n", 0o600, "server stands outside of all profiles"),
        ("[default]\nuser = 'ann'\n", 0o644, "it has neither objects nor server"),
        ("[other]\nserver = 'x'\n[default", 0o600, "profiles.toml"),
        ("[default]\nserver = 'a b'\n", 0o600, "is no address"),
    ],
)
def test_a_file_of_profiles_that_cannot_be_used_is_one_sentence(home: Path, text: str, mode: int, said: str) -> None:
    write(home, text, mode)
    status, out, err = run("sub", "tv")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("bussrv sub: ")
    assert said in err
    assert "s3cret" not in err


def test_a_file_without_secrets_may_be_read_by_others(home: Path) -> None:
    write(home, "[default]\nserver = 'hall'\n", 0o644)
    assert str(connection().place("spp").address) == "hall:3002"
    assert profiles.names() == ["default"]


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [("t0ken\n", 0o644, "others may read"), ("a\nb\n", 0o600, "more than one line"), ("", 0o600, "or none")],
)
def test_files_of_secrets(home: Path, content: str, mode: int, said: str) -> None:
    file = home / "token"
    file.write_text(content)
    file.chmod(mode)
    with pytest.raises(ConfigError, match=said):
        connection(server="127.0.0.1", token_file=file).place("admin")
    file.chmod(0o600)
    file.write_text("t0ken\n")
    assert connection(server="127.0.0.1", token_file=file).place("admin").credentials.token == "t0ken"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--server", "hall", "--profile", "here"), "--profile is not allowed with --server"),
        (("--profile", "attic"), "has no profile 'attic'; there are default, cellar, cellar-lan, here"),
        (("--secret-file", "x"), "--secret-file needs --user"),
    ],
)
def test_options_that_do_not_go_together(words: tuple[str, ...], said: str) -> None:
    status, _, err = run("sub", "tv", *words)
    assert status == 2
    assert said in err


def test_both_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSSRV_SERVER", "hall")
    monkeypatch.setenv("BUSSRV_PROFILE", "here")
    assert run("sub", "tv")[0] == 2


def end_a_connection(listening: socket.socket, is_reset: bool) -> None:
    connection, _ = listening.accept()
    connection.settimeout(10)
    if is_reset:
        connection.recv(1)  # What is left unread resets the connection.
    else:
        connection.recv(1 << 16)
    connection.close()


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("words", [("pub", "door", "hi"), ("sub", "door"), ("health",)])
def test_a_server_that_closes_without_a_word_may_want_tls(words: tuple[str, ...], is_reset: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=end_a_connection, args=(listening, is_reset))
        thread.start()
        status, said, complained = run(*words, "--server", f"127.0.0.1:{listening.getsockname()[1]}")
        thread.join()
    assert (status, said) == (3, "")
    assert complained.endswith("does that port speak TLS? Then write tls: before the host\n")
