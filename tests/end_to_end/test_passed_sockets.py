"""Sockets that systemd has opened, and passes to the server."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bussrv.client.objects import ObjectsClient
from bussrv.testing.server import TWISTD

pytestmark = pytest.mark.processes

STARTER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="objects")
os.execv(sys.argv[2], sys.argv[2:])
"""


def start(directory: Path, host: str, endpoint: str) -> subprocess.Popen[str]:
    """Start a server as systemd does."""
    off = [part for name in ("business", "spp", "inbus", "admin", "journal") for part in (f"--{name}", "off")]
    with socket.create_server((host, 0)) as opened:
        number = os.dup(opened.fileno())
    try:
        return subprocess.Popen(
            [
                sys.executable,
                "-c",
                STARTER,
                str(number),
                *TWISTD,
                "-n",
                "--pidfile=",
                "bussrv",
                "--objects",
                endpoint,
                *off,
            ],
            cwd=directory,
            pass_fds=[number],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    finally:
        os.close(number)


def test_a_socket_is_found_by_its_name(tmp_path: Path) -> None:
    with start(tmp_path, "127.0.0.1", "systemd:domain=INET:name=objects") as server:
        try:
            assert server.stdout is not None
            (port,) = next(
                filter(None, (re.findall(r"objects on systemd 127.0.0.1:(\d+)", line) for line in server.stdout))
            )
            with ObjectsClient(port=int(port)) as client:
                assert client.subscribe()["event"] == "routing/subscribe/reply"
        finally:
            server.terminate()


def test_what_is_wrong_with_a_socket_is_said(tmp_path: Path) -> None:
    with start(tmp_path, "127.0.0.1", "systemd:domain=INET:name=other") as server:
        said, _ = server.communicate(timeout=60)
    assert "--objects: 'systemd:domain=INET:name=other': systemd has passed no socket with name=other" in said
    with start(tmp_path, "0.0.0.0", "systemd:domain=INET:name=objects") as server:
        said, _ = server.communicate(timeout=60)
    assert "--objects: everybody who reaches this machine could use it" in said
    assert "Bad file descriptor" not in said
    assert server.returncode == 1
