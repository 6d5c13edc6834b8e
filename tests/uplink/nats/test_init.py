"""What ``bussrv init --uplink`` makes: the commands of both units, as they stand there, join a server to a net."""

from __future__ import annotations

import asyncio
import re
import shlex
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from bussrv.cli.main import main
from bussrv.client.aio import Bus, connect
from bussrv.client.errors import BusError
from bussrv.client.tls import Tls
from bussrv.starter import texts, uplink
from bussrv.testing.server import PATIENCE
from bussrv.testing.uplink import RunningUplink
from tests.logins import quick_secrets
from tests.uplink.nats.site import Site
from tests.uplink.nats_cluster import NatsCluster


def words(unit: Path, run: Path, var: Path) -> list[str]:
    """The command of a unit, with other directories in place of those that systemd makes."""
    (line,) = re.findall(r"^ExecStart=(.*)", unit.read_text(), re.MULTILINE)
    line = line.replace("/run/bussrv/", f"{run}/").replace("/var/lib/", f"{var}/")
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line)]


@contextmanager
def started(command: list[str]) -> Iterator[int]:
    """Run a server. :returns: the port of Object System."""
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout is not None
    said = ""
    try:
        while "bussrv is ready" not in said:
            line = server.stdout.readline()
            assert line, said
            said += line
        (port,) = re.findall(r"objects on ssl \S+:(\d+)$", said, re.MULTILINE)
        yield int(port)
    finally:
        server.kill()
        server.communicate(timeout=PATIENCE)


async def answer(request: Any) -> bytes:
    return bytes(request.payload) + b" yes"


async def ask(client: Bus, service: str) -> bytes:
    """Ask until the service is known, and answers."""
    while True:
        with suppress(BusError):
            return bytes((await client.request(service, b"?")).payload)
        await asyncio.sleep(0.05)


def test_a_new_server_joins_a_net(
    nats_server: NatsCluster, short_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hall, run, var = short_path / "hall", short_path, tmp_path / "var"
    assert main(["init", str(hall), "--uplink", nats_server.urls[0], "--net", "made", "--keep", "tv"]) == 0
    secrets = quick_secrets(hall / texts.USERS, capsys.readouterr().out)
    file = hall / texts.CONFIGURATION
    file.write_text(re.sub(r"ssl:\d+", "ssl:0", file.read_text()) + 'admin = "off"\nserver-id = "hall"\n')
    _, _, *options = words(hall / uplink.UNIT, run, var)

    async def test(port: int, cellar: Site) -> None:
        tls = Tls(ca=hall / texts.AUTHORITY)
        async with (
            connect(f"buss://localhost:{port}", user="ann", secret=secrets["ann"], tls=tls, timeout=PATIENCE) as ann,
            cellar.client() as other,
            ann.serve("door", answer),
            other.serve("gate", answer),
        ):
            assert await asyncio.wait_for(ask(other, "door"), PATIENCE) == b"? yes"
            assert await asyncio.wait_for(ask(ann, "gate"), PATIENCE) == b"? yes"

    with started(words(hall / texts.UNIT, run, var)) as port, RunningUplink(*options):
        assert stat.S_IMODE((run / texts.SOCKET).stat().st_mode) == 0o600
        with Site(tmp_path, "cellar", nats_server.urls, "made") as cellar:
            asyncio.run(test(port, cellar))
