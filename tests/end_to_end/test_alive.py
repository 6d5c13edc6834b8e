"""``bussrv alive``: a server that lives answers at every port, and one that hangs does not."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.cli.main import main
from bussrv.testing.server import RunningServer
from tests.certificates import self_signed
from tests.end_to_end.conftest import Start
from tests.end_to_end.journals import events_of

pytestmark = pytest.mark.processes

Asked = Callable[..., tuple[int, str]]


@pytest.fixture
def asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Asked:
    """Ask a server whose configuration has these lines. Returns the exit status and what is said."""

    def ask(*lines: str, seconds: float = 30) -> tuple[int, str]:
        (tmp_path / "bus.toml").write_text("\n".join(lines))
        status = main(["alive", "--seconds", str(seconds), str(tmp_path / "bus.toml")])
        return status, capsys.readouterr().err

    return ask


def lines_of(server: RunningServer, tls: str, directory: Path) -> list[str]:
    ports = server.addresses
    return [
        f'objects = "ssl:{ports["objects"][1]}:{tls}"',
        f'business = "haproxy:tcp:{ports["business"][1]}:interface=127.0.0.1"',
        f'spp = "unix:{directory / "spp"}"',
        'inbus = "udp:7222"',
    ]


def test_ports_of_every_kind_are_asked(start: Start, asked: Asked, tmp_path: Path, journal: Path) -> None:
    key, certificate = self_signed(tmp_path / "tls")
    tls = f"interface=127.0.0.1:privateKey={key}:certKey={certificate}"
    server = start(
        "--objects", f"ssl:0:{tls}", "--business", "haproxy:tcp:0:interface=127.0.0.1", "--spp", f"unix:{tmp_path}/spp"
    )
    lines = lines_of(server, tls, tmp_path)
    assert asked(*lines) == (0, "")
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        status, said = asked(*lines, seconds=0.1)
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    assert status == 1
    assert [line.split(":")[:2] for line in said.splitlines()] == [
        ["bussrv alive", f" {name}"] for name in ("business", "objects", "spp")
    ]
    assert server.stop() == 0
    assert "objects" not in [each.protocol for each in events_of(journal, ev.SessionOpened)]
    # A server that hung finds the handshake that had been given up.
    assert len([line for line in server.lines if "TLS with" in line]) <= 1


def test_nobody_there(asked: Asked) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    others = ['business = "off"', 'spp = "off"', 'inbus = "off"']
    assert asked(f"objects = {port}", *others)[0] == 1
    status, said = asked('objects = "off"', *others[:2])
    assert (status, "names no TCP port" in said) == (1, True)
    assert asked("objects = ")[0] == 1
