"""Providers that die in the middle of a request, as users see it: processes, sockets, and two linked servers."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bussrv.client.objects import BusError, ObjectsClient
from bussrv.testing.server import RunningServer
from tests.forked import ForkedServer

pytestmark = pytest.mark.processes

PATIENCE = 60
PROVIDER = """
import sys
from bussrv.client.objects import ObjectsClient
with ObjectsClient(port=int(sys.argv[1])) as service:
    service.subscribe(receive_mode="events_only")
    service.register("tv")
    print("ready", flush=True)
    next(service.requests())
    print("asked", flush=True)
    sys.stdin.read()
    service.unregister("tv")
    sys.stdin.read()
"""


@contextmanager
def provider(server: RunningServer) -> Iterator[subprocess.Popen[str]]:
    """A program that takes one request and never answers it; it unregisters when its standard input ends."""
    command = [sys.executable, "-c", PROVIDER, str(server.port("objects"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def asked_in_vain(server: RunningServer, service: subprocess.Popen[str], then: Callable[[], object]) -> str:
    """The reason of the error that a client gets, if something happens after the provider was given its request."""

    def act() -> None:
        assert service.stdout is not None
        if service.stdout.readline() == "asked\n":
            then()

    with ObjectsClient(port=server.port("objects"), timeout=PATIENCE) as client:
        client.subscribe_for_requests()
        while not client.discover("tv"):
            pass  # A linked server learns of it a moment later.
        acting = threading.Thread(target=act)
        acting.start()
        with pytest.raises(BusError) as refused:
            client.request("tv")
        acting.join()
        assert client.request("bus/clock").payload
    return refused.value.reason


def test_the_requester_is_told_at_once(tmp_path: Path) -> None:
    """The provider is killed, or unregisters, at this server or at a linked one; in the end that server is killed."""
    with ForkedServer(tmp_path / "far", ["--server-id", "far", "--link-allow", "127.0.0.1"]) as far:
        link = ["--server-id", "near", "--link", f"tcp:127.0.0.1:{far.port('objects')}"]
        with ForkedServer(tmp_path / "near", link) as near:
            for home in (near, far):
                with provider(home) as service:
                    assert asked_in_vain(near, service, service.kill) == "provider-gone"
                with provider(home) as service:
                    assert service.stdin is not None
                    assert asked_in_vain(near, service, service.stdin.close) == "provider-gone"
            with provider(far) as service:
                assert asked_in_vain(near, service, far.process.kill) == "provider-gone"
