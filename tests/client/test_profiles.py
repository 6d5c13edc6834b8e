"""Clients whose server is a profile of the command, and who may be told a secret."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bussrv.client import aio
from bussrv.client.address import Address
from bussrv.client.aio import Tls, connect
from bussrv.client.settings import Login
from bussrv.client.shell.driver import Driver
from bussrv.errors import ConfigError

PROFILES = """\
[default]
server = "127.0.0.1:7281"
token = "t0ken"

[hall]
server = "hall.example"
objects = "tls:[fd00::7]:7000"
ca = "ca.pem"
user = "ann"
secret = "s3cret"

[cellar]
server = "cellar.example"
token = "t0ken"

[attic]
spp = "attic.example"
user = "bob"
"""

Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the file of profiles."""
    file = tmp_path / "bussrv/profiles.toml"
    file.parent.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def write(text: str) -> Path:
        file.write_text(text)
        file.chmod(0o600)
        return file

    write(PROFILES)
    return write


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Address, Login, Any]]:
    """What a client is made of: the address, the login and TLS."""
    seen: list[Any] = []

    class Noted(Driver):
        def __init__(self, addresses: Any, settings: Any, tls: Any, *rest: Any) -> None:
            seen[:] = [*addresses, settings.login, tls]
            super().__init__(addresses, settings, tls, *rest)

    monkeypatch.setattr(aio, "Driver", Noted)

    def make(*given: Any, **options: Any) -> Any:
        connect(*given, **options)
        return tuple(seen)

    return make


def test_a_profile_is_a_server_and_a_login(made: Callable[..., Any], tmp_path: Path) -> None:
    assert made("profile:") == (Address("objects", "127.0.0.1", 7890), Login(token="t0ken"), None)
    ca = Tls(tmp_path / "bussrv/ca.pem")
    hall = Address("objects", "fd00::7", 7000)
    assert made("profile:hall", name="lamp") == (hall, Login("ann", "s3cret", name="lamp"), ca)


def test_arguments_win_over_the_profile(made: Callable[..., Any]) -> None:
    context = ssl.create_default_context()
    assert made("profile:hall", tls=context)[2] is context
    # Whoever says one part of the login says all of it.
    assert made("profile:hall", user="bob")[1] == Login("bob")
    assert made("profile:hall", token="other")[1] == Login(token="other")
    assert made("profile:cellar", token=lambda: "x", tls=Tls())[1].credentials() == {"token": "x"}


@pytest.mark.parametrize("others", [("bus://127.0.0.1",), ("profile:hall",)])
def test_a_profile_shares_its_secret_with_no_other(others: tuple[str, ...]) -> None:
    for addresses in (["profile:", *others], [*others, "profile:"]):
        with pytest.raises(ValueError, match="a profile is the only address"):
            connect(addresses)


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (PROFILES, "attic", ":16, [attic]: it has neither objects nor server"),
        (PROFILES, "roof", " has no profile 'roof'; there are default, hall, cellar, attic"),
        ("[a]\n\nserver = 'a b'\n", "a", ":3, [a]: 'a b' is no address"),
        ("[a]\nserver = 'a'\nport = '7'\n", "a", ":3, [a]: there is no key 'port'"),
        ("[a]\nserver = 7\n", "a", ":2, [a]: server is not a text"),
        ("a = {server = 7}\n", "a", ":1, [a]: server is not a text"),
        ("\nserver = 'a'\n", "a", ":2: server stands outside of all profiles"),
        ("[a]\nserver = 's3cret\n", "a", ":2: not TOML: "),
        ("[a]\nserver = 'a'\nsecret = 's3cret'\n", "a", ":1, [a]: a secret belongs to a user"),
        ("[b]\n", "", " has no profile 'default'; there are b"),
    ],
)
def test_an_error_names_the_file_and_the_line(write: Write, text: str, name: str, said: str) -> None:
    file = write(text)
    with pytest.raises(ConfigError) as failed:
        connect(f"profile:{name}")
    assert str(failed.value).startswith(f"{file}{said}")
    assert "s3cret" not in str(failed.value)


def test_a_file_that_is_not_there(write: Write) -> None:
    write("").unlink()
    with pytest.raises(ConfigError, match=r"profiles\.toml: cannot be read: No such file"):
        connect("profile:")


FAR = [
    "bus://hall.example",
    "business://10.0.0.9",
    "ws://[fd00::7]",
    "spp://unix",
    ["bus://127.0.0.1", "bus://10.0.0.9"],
]
NEAR = ["bus://127.0.0.1", "spp://localhost", "business://[::1]", "ws://127.3.2.1", "bus://[::ffff:127.0.0.1]"]
SECURED = ["buss://hall.example", "wss://10.0.0.9", "spps://unix", "inbus://hall.example"]


@pytest.mark.parametrize("secrets", [{"token": "t0ken"}, {"user": "ann", "secret": lambda: "s3cret"}])
def test_secrets_do_not_cross_the_network_in_the_clear(secrets: dict[str, Any]) -> None:
    for address in FAR:
        with pytest.raises(
            ValueError, match=r"on another machine, and not reached over TLS: .* insecure=True"
        ) as failed:
            connect(address, **secrets)
        assert "t0ken" not in str(failed.value)
        connect(address, **secrets, insecure=True)
        connect(address, **secrets, tls=Tls())
        connect(address, user="ann")
    for address in (*NEAR, *SECURED):
        connect(address, **secrets)


def test_neither_do_those_of_a_profile() -> None:
    with pytest.raises(ValueError, match=r"cellar\.example:7890 is on another machine"):
        connect("profile:cellar")
    connect("profile:cellar", insecure=True)
