"""A real server on a disk that is really full: what it cannot write down it refuses, and the rest goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from bussrv.client.objects import BusError, ObjectsClient
from bussrv.journal.keys import generate
from bussrv.journal.verify import verify
from bussrv.testing.server import RunningServer
from tests.end_to_end.failed_disk import assert_failed_twice
from tests.end_to_end.linked import tracebacks
from tests.forked import ForkedServer
from tests.journal.without_seals import faults_without_seals
from tests.small_disk import fill, small_disk

SIZE = "256k"


@pytest.fixture(name="small_disk")
def a_small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "small", SIZE) as directory:
        yield directory


def await_line(server: RunningServer, text: str) -> None:
    while not any(text in line for line in server.lines):
        server.next_line()


def register_until_refused(client: ObjectsClient, name: str) -> list[str]:
    """What was registered before the disk was full: what is left of its last page takes a few more."""
    registered: list[str] = []
    try:
        while True:
            service = f"{name}.{len(registered)}"
            client.register(service)
            registered.append(service)
    except BusError as refused:
        assert refused.reason == "journal-unavailable"  # noqa: PT017
    return registered


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--journal-segment-bytes", "4000", "--journal-compress"),
        ("--journal-sync", "interval", "--journal-seal-interval", "0.1"),
    ],
)
def test_changes_are_refused_objects_flow_and_it_heals_by_itself(
    small_disk: Path, tmp_path: Path, options: Sequence[str]
) -> None:
    public, journal = generate(tmp_path / "key"), small_disk / "journal"
    always = ("--services", "off", "--journal-min-free", "0", "--journal-key", str(tmp_path / "key"))
    with ForkedServer(journal, (*always, *options)) as server:
        connect: Callable[[], ObjectsClient] = lambda: ObjectsClient(port=server.port("objects"))  # noqa: E731
        with connect() as ann, connect() as bob:
            ann.subscribe(user="ann")
            bob.subscribe(user="bob")
            leaver = connect()
            leaver.subscribe(user="leaver")
            kept: list[str] = []
            for number in range(2):
                ballast = fill(small_disk)
                kept += register_until_refused(ann, f"tv{number}")
                ann.send({"event": "hello", "number": number})
                bob.wait_for(lambda each: each.metadata.get("number") == number)  # noqa: B023
                with pytest.raises(BusError, match="journal-unavailable"):
                    bob.register("refused")
                # A fact that is kept until it can be written.
                leaver.close()
                bob.send({"event": "hello", "number": number + 10})
                ann.wait_for(lambda each: each.metadata.get("number") == number + 10)  # noqa: B023
                server.lines.clear()
                ballast.unlink()
                await_line(server, "journal: can be written again")
                bob.register(f"radio{number}")
                kept.append(f"radio{number}")
        assert server.stop() == 0
        assert tracebacks(server) == []
    assert_failed_twice(journal, kept, "No space left on device", refused=2)
    report = verify(journal, public)
    assert (report.faults, report.is_trusted, report.sealed_seq) == ([], True, report.last_seq)
    assert faults_without_seals(journal) == []
