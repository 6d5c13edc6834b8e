"""Whatever an option is set to: a server that starts, or one sentence that names the option. Never a traceback."""

import datetime
import math
from pathlib import Path
from typing import Any

import pytest
from twisted.internet import reactor

from bussrv.errors import ConfigError
from bussrv.server.configuration.check import check
from bussrv.server.configuration.options import Options, StartError
from bussrv.server.configuration.sources import of_command_line
from bussrv.server.log.text import one_line
from bussrv.server.running.twistd import ProcessService
from tests.certificates import self_signed
from tests.server.configs import FORMATS, SERVICES, configured
from tests.size import sample

LISTENERS = ("objects", "business", "inbus", "spp")

VALUES: tuple[Any, ...] = (
    *("", "\0", "a\0b", "\ud800", "\udcff", "\u202e", "\x1b[31m", "\n", "é", "[", "-1", "1e400", "nan", "9" * 5000),
    *(
        "a" * 300,
        "a/" * 3000,
        "10.0.0.0/8\0",
        "::1%x/3",
        "spp=\0",
        "/dev/null",
        "/proc/self/mem",
        "/dev/null/no/such/file",
        ".",
    ),
    *(
        None,
        True,
        False,
        0,
        -1,
        10**5000,
        1.5,
        math.inf,
        -math.inf,
        math.nan,
        [],
        [[]],
        {},
        {"a": 1},
        [1],
        ["a", ["b"]],
    ),
    *([{}], datetime.date(2026, 11, 21), datetime.datetime(2026, 11, 21)),
)
"""What TOML and the command line can say, and a little more."""


def start(options: dict[str, Any]) -> None:
    """Start a server and stop it again. ``bussrv check`` finds the same before.

    :raises StartError: it does not start.
    """
    checked, faults = faults_of_check(options), faults_of_start(options)
    assert tuple(map(one_line, checked)) == faults
    if faults:
        raise StartError(*faults)


def faults_of_start(options: dict[str, Any]) -> tuple[str, ...]:
    try:
        built = configured(options)
    except ConfigError as error:
        return tuple(map(one_line, error.sentences))
    server = ProcessService(built, FORMATS, reactor, services=[])
    try:
        server.startService()
    except StartError as error:
        return error.sentences
    server.stopService()
    return ()


def faults_of_check(options: dict[str, Any]) -> tuple[str, ...]:
    try:
        check(of_command_line(options), FORMATS, SERVICES, reactor)
    except ConfigError as error:
        return error.sentences
    return ()


def refusal(options: dict[str, Any]) -> str | None:
    """Why a server does not start; ``None`` if it does."""
    try:
        start(options)
    except StartError as error:
        return str(error) if error.code == 1 else f"exit status {error.code}"
    return None


@pytest.mark.dear
@pytest.mark.parametrize(
    ("option", "first"),
    [
        pytest.param(name, first, id=name)
        for first, name in enumerate(sorted(each.name for each in Options().table if each.in_file))
    ],
)
def test_no_value_of_an_option_gives_a_traceback(
    option: str, first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, value in enumerate(sample(VALUES, first=first)):
        options = {**dict.fromkeys(LISTENERS, "off"), "inbus": "0", "journal": "off"}
        if option.startswith("journal-"):
            options["journal"] = str(tmp_path / str(number))
        said = refusal({**options, option: value})
        assert said is None or said.startswith((f"--{option}: ", "every wire format is off")), ascii(value)
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert all(line.isprintable() and len(line) < 20_000 for line in said.splitlines())


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("keys")
    self_signed(directory / "own")
    self_signed(directory / "other")
    for name in ("junk", "empty", "file"):
        (directory / name).write_text("junk" * (name == "junk"))
    return directory


BAD_STREAMS = {
    "ssl:0": "it lacks privateKey=FILE",
    "ssl:": "the port is a number from 0 to 65535, not ''",
    "ssl:0:privateKey=KEYS/none": "KEYS/none: cannot be read: No such file or directory",
    "ssl:0:privateKey=KEYS": "KEYS: cannot be read: Is a directory",
    "ssl:0:privateKey=KEYS/junk": "KEYS/junk: holds no private key in PEM",
    "ssl:0:privateKey=KEYS/empty": "KEYS/empty: the file is empty",
    "ssl:0:privateKey=KEYS/own.key:certKey=KEYS/empty": "KEYS/empty: the file is empty",
    "ssl:0:privateKey=KEYS/own.key": "KEYS/own.key: holds no certificate in PEM",
    "ssl:0:privateKey=KEYS/own.key:certKey=KEYS/other.crt": "KEYS/other.crt: the certificate does not fit the private "
    "key in KEYS/own.key",
    "ssl:0:privateKey=KEYS/own.key:certKey=KEYS/own.crt:extraCertChain=KEYS/junk": "KEYS/junk: holds no certificate",
    "ssl:0:privateKey=KEYS/own.key:certKey=KEYS/own.crt:clientCA=KEYS/none": "KEYS/none: cannot be read",
    "ssl:0:privateKey=KEYS/own.key:certKey=KEYS/own.crt:clientCert=optional": "clientCert= needs clientCA=FILE",
    "ssl:0:privateKey=KEYS/own.key:certKey=KEYS/own.crt:clientCA=KEYS/own.crt:clientCert=no": "required or optional, "
    "not 'no'",
    "ssl:0:privateKey=KEYS/own.key:certKey=KEYS/own.crt:sslmethod=NONE": "there is no parameter 'sslmethod'",
    "ssl:0:privateKey=KEYS/own.key:privateKey=KEYS/own.key": "'privateKey' is set twice",
    "ssl:0:1:privateKey=KEYS/own.key": "it has the form ssl:PORT:privateKey=FILE:certKey=FILE",
    "ssl:x:privateKey=KEYS/own.key:certKey=KEYS/own.crt": "the port is a number from 0 to 65535, not 'x'",
    "ssl:65536:privateKey=KEYS/own.key:certKey=KEYS/own.crt": "the port is a number from 0 to 65535, not '65536'",
    "ssl:0:privateKey=KEYS/own.key:certKey=KEYS/own.crt:backlog=-1": "backlog= is a number",
    "ssl:0:privateKey=KEYS/own.key:certKey=KEYS/own.crt:interface=nowhere": "cannot listen on nowhere, port 0",
    "haproxy:ssl:0:privateKey=KEYS/none": "KEYS/none: cannot be read: No such file or directory",
    "tls:KEYS:0": "the endpoint of a port with TLS begins with ssl:",
    "tcp:": "is not a stream endpoint",
    "tcp:abc": "'abc' is no number",
    "tcp:99999": "cannot listen: ports are 0 to 65535",
    "tcp:-1": "cannot listen: ports are 0 to 65535",
    "tcp:" + "9" * 5000: "is not a stream endpoint",
    "tcp:0:backlog=many": "'many'",
    "tcp:0:backlog=99999999999999": "a number in it is too large",
    "tcp:0:interface=nowhere": "cannot listen on nowhere, port 0",
    "tcp:0:interface=192.0.2.1": "cannot listen on 192.0.2.1, port 0",
    "tcp:0:interface=\0": "there is a NUL character in it",
    "tcp:0:interface=127.0.0.1:\\": "is not a stream endpoint",
    "tcp:0:color=red": "there is no parameter 'color'",
    "tcp:0:0:0:0:0": "'backlog' is set twice",
    "tcp6:abc": "'abc'",
    "unix:KEYS/none/socket": "cannot listen: KEYS/none/socket.lock: No such file or directory",
    "unix:KEYS/file": "cannot listen on KEYS/file: Address already in use",
    "unix:KEYS": "cannot listen on KEYS: Address already in use",
    "unix:KEYS/" + "s" * 120: "path too long",
    "unix:KEYS/" + "s" * 300: "File name too long",
    "unix:KEYS/a\0b": "there is a NUL character in it",
    "unix:KEYS/socket:mode=999": "'999' is no octal number",
    "systemd:domain=INET:index=0": ": systemd has passed no socket with index=0 to this process",
    "systemd:domain=INET:name=x": ": systemd has passed no socket with name=x to this process",
    "haproxy:systemd:domain=INET:name=x": ": systemd has passed no socket with name=x to this process",
    "systemd:domain=INET:index=x": "'x' is no number",
    "systemd:domain=INET": ": it has the form systemd:domain=INET:name=NAME",
    "systemd:domain=INET:name=": ": it has the form systemd:domain=INET:name=NAME",
    "systemd:domain=INET:name=x:index=0": ": it has the form systemd:domain=INET:name=NAME",
    "systemd:domain=IPX:name=x": ": it has the form systemd:domain=INET:name=NAME",
    "systemd:name=x": ": it has the form systemd:domain=INET:name=NAME",
    "systemd:": ": it has the form systemd:domain=INET:name=NAME",
    "stdio:": "is not a stream endpoint that clients can connect to",
    "haproxy:": "is not a stream endpoint",
    "haproxy:stdio:": "is not a stream endpoint that clients can connect to",
    "haproxy:tcp:x": "'x'",
    "haproxy:bogus:1": "'bogus'",
    "udp:0": "'udp'",
    "bogus:1": "'bogus'",
    "\x1b[31m:1": "Unknown endpoint type: '?[31m'",
    ":": "is not a stream endpoint",
    "=:=": "is not a stream endpoint",
    "\\:": "is not a stream endpoint",
    "tcp\n:1": "is not a stream endpoint",
}

BAD_DATAGRAMS = {
    "udp:": "is not of the form udp:PORT",
    "udp:abc": "is not of the form udp:PORT",
    "udp:-1": "is not of the form udp:PORT",
    "udp:99999": "is not of the form udp:PORT",
    "udp:" + "9" * 5000: "is not of the form udp:PORT",
    "udp:0:interface=nowhere": "the interface is not an IP address",
    "udp:0:interface=192.0.2.1": "cannot listen on 192.0.2.1, port 0",
    "udp:0:interface=fe80::1%none": "cannot listen on fe80::1%none, port 0",
    "udp:0:backlog=3": "is not of the form udp:PORT",
    "tcp:0": "is not of the form udp:PORT",
    "ssl:0": "is not of the form udp:PORT",
}

TABLE = [("objects", *each) for each in BAD_STREAMS.items()] + [("inbus", *each) for each in BAD_DATAGRAMS.items()]


@pytest.mark.dear
@pytest.mark.parametrize(("option", "endpoint", "said"), TABLE, ids=[ascii(each[1])[:40] for each in TABLE])
def test_no_endpoint_gives_a_traceback(
    option: str, endpoint: str, said: str, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = {**dict.fromkeys(LISTENERS, "off"), "journal": "off", "insecure": True}
    with pytest.raises(StartError) as caught:
        start({**options, option: endpoint.replace("KEYS", str(keys))})
    assert str(caught.value).startswith(f"--{option}: ")
    assert said.replace("KEYS", str(keys)) in str(caught.value)
    assert "\n" not in str(caught.value)
    for internal in ("Error", "argument", "_parse", "literal"):
        assert internal not in str(caught.value)


BAD_LINKS = {
    "tcp:hall": "it lacks 'port'",
    "tcp:": "it lacks 'port'",
    "tls:hall": "it lacks 'port'",
    "tls:": "it lacks 'host' and 'port'",
    "tls:hall:x": "the port is a number from 0 to 65535, not 'x'",
    "tls:hall:99999": "the port is a number from 0 to 65535, not '99999'",
    "tls:hall:1:2": "it has too many parts",
    "tls:hall:7890:privateKey=none": "privateKey= needs certificate=FILE",
    "tls:hall:7890:trustRoots=none": "none: cannot be read: No such file or directory",
    "ssl:hall:7890": "the endpoint of a link with TLS begins with tls:",
    "tcp:hall:x": "'x' is no number",
    "tcp:hall:99999": "ports are 0 to 65535",
    "tcp:host=hall:port=99999": "ports are 0 to 65535",
    "tcp:hall:7890:color=red": "there is no parameter 'color'",
    "tls:hall:7890:color=red": "there is no parameter 'color'",
    "tls:hall:7890:certificate=none": "No such file or directory",
    "bogus:1": "Unknown endpoint type: 'bogus'",
    "\x1b:1": "Unknown endpoint type: '?'",
    "spp=\0": "is not a client endpoint",
    ":": "Unknown endpoint type: ''",
}


@pytest.mark.parametrize(("endpoint", "said"), BAD_LINKS.items(), ids=map(ascii, BAD_LINKS))
def test_no_link_gives_a_traceback(endpoint: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = {**dict.fromkeys(LISTENERS, "off"), "inbus": "0", "journal": "off"}
    with pytest.raises(StartError) as caught:
        start({**options, "link": endpoint})
    assert str(caught.value).startswith("--link: ")
    assert said in str(caught.value)
    for internal in ("Error", "argument", "_parse", "__init__"):
        assert internal not in str(caught.value)
