"""A disk that fails under a real server, which clients reach over IPv4 and IPv6: I/O errors, and a read-only remount.

Changes are refused and say why, objects flow in every format, nobody is disconnected, and it recovers by itself.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from bussrv.client.business import BusinessClient
from bussrv.client.inbus import InbusSubscriber
from bussrv.client.objects import BusError, ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.journal.verify import verify
from bussrv.testing.server import RunningServer
from bussrv.wire import spp
from tests.attacks.failing_disk import FAULTS, FailingDisk, read_only
from tests.end_to_end.failed_disk import assert_failed_twice
from tests.end_to_end.linked import tracebacks
from tests.forked import ForkedServer
from tests.hosts import HOSTS, listening_on, needs_host
from tests.size import further

REFUSED = "the journal cannot be written"


@pytest.fixture(params=further(HOSTS))
def host(request: pytest.FixtureRequest) -> str:
    return needs_host(request.param)


class Clients:
    """One of every format. All watch ``tv``, which ``ann`` provides."""

    def __init__(self, server: RunningServer, host: str, stack: ExitStack) -> None:
        self.server = server
        self._host = host
        self.ann, self.bob = (stack.enter_context(self.connect()) for _ in range(2))
        for client, name in ((self.ann, "ann"), (self.bob, "bob")):
            client.subscribe(user=name, receive_mode="no_echo")
        # Datagrams are not answered; a change that is asked for behind them is.
        self.device = stack.enter_context(InbusSubscriber("tv", server.addresses["inbus"], host=host))
        self.ann.register("tv")
        self.office = stack.enter_context(BusinessClient(host, server.port("business")))
        self.office.register()
        self.watcher = stack.enter_context(SppClient(host, server.port("spp")))
        self.watcher.wait_for(lambda event: event == spp.Offer("tv"))
        self.watcher.subscribe("tv")
        self.watcher.wait_for(lambda event: event == spp.Info("tv", b""))
        self.publish(b"are you there?")

    def connect(self) -> ObjectsClient:
        return ObjectsClient(self._host, self.server.port("objects"))

    def publish(self, payload: bytes) -> None:
        """What ``ann`` publishes reaches every format."""
        self.ann.send({"type": "text/plain", "sender": "tv"}, payload)
        for client in (self.bob, self.office):
            client.wait_for(lambda each: each.payload == payload)
        self.watcher.wait_for(lambda event: event == spp.Info("tv", payload))
        assert self.device.receive(10).payload == payload

    def are_refused(self) -> None:
        """Who wants a change is told that it cannot be written. SPP has no words for that, but goes on."""
        for register in (self.bob.register, self.office.register_service):
            with pytest.raises(BusError, match=REFUSED) as refusal:
                register("radio")
            assert refusal.value.reason == "journal-unavailable"
        self.watcher.subscribe("film")
        with self.connect() as late, pytest.raises(BusError, match=REFUSED):
            late.subscribe()

    def await_line(self, text: str) -> None:
        while not any(text in line for line in self.server.lines):
            self.server.next_line()


def suffer(clients: Clients, leaver: ObjectsClient, fault: AbstractContextManager[None], number: int) -> list[str]:
    """Go through a failure of the disk, and out of it again. :returns: the services that were registered meanwhile."""
    clients.server.lines.clear()
    with fault:
        kept = register_until_refused(clients.bob, f"film{number}")
        for again in range(3):
            clients.are_refused()
            clients.publish(b"still there %d.%d" % (number, again))
        leaver.close()
    clients.await_line("journal: can be written again")
    clients.bob.register(f"back{number}")
    clients.publish(b"back again %d" % number)
    return [*kept, f"back{number}"]


def register_until_refused(client: ObjectsClient, name: str, most: int = 200) -> list[str]:
    """A file that is open can be written for a while."""
    registered: list[str] = []
    while len(registered) < most:
        try:
            client.register(f"{name}.{len(registered)}")
        except BusError as refused:
            if refused.reason == "journal-unavailable":
                return registered
            raise
        registered.append(f"{name}.{len(registered)}")
    raise AssertionError("nothing was refused")


@pytest.fixture
def run(tmp_path: Path, host: str) -> Callable[..., None]:
    """``run(make_fault, why, *options)``: two failures, one after the other, and what the journal says of them."""

    def through(
        make_fault: Callable[[], AbstractContextManager[None]],
        why: int,
        *options: str,
        environment: dict[str, str] | None = None,
    ) -> None:
        journal = tmp_path / "journal"
        always = ["--services", "off", "--journal-min-free", "1", *listening_on(host)]
        start = RunningServer if environment else ForkedServer
        with start(journal, [*always, *options], environment) as server, ExitStack() as stack:
            clients = Clients(server, host, stack)
            kept = ["tv"]
            for number in range(2):
                leaver = clients.connect()
                leaver.subscribe(user="leaver")
                kept += suffer(clients, leaver, make_fault(), number)
            assert server.stop() == 0
            assert tracebacks(server) == []
        assert_failed_twice(journal, kept, os.strerror(why), refused=9)
        report = verify(journal)
        assert (report.faults, report.sealed_seq) == ([], report.last_seq)

    return through


@pytest.mark.parametrize("fault", FAULTS)
def test_errors_of_the_disk(run: Callable[..., None], tmp_path: Path, fault: str) -> None:
    disk = FailingDisk(tmp_path, tmp_path / "journal")
    number, calls = FAULTS[fault]
    run(lambda: disk.failing(number, *calls), number, environment=disk.environment)


def test_a_read_only_remount(run: Callable[..., None], tmp_path: Path) -> None:
    run(lambda: read_only(tmp_path / "journal"), errno.EROFS, "--journal-segment-bytes", "4000")
