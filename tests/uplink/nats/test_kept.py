"""The place in what is kept: a file that is damaged, cannot be written, or is of another stream."""

import asyncio
import io
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nats.errors import Error

from bussrv.errors import ConfigError
from bussrv.uplink.lines import Lines
from bussrv.uplink.nats import kept
from bussrv.uplink.nats.kept import KeptService, check_state
from bussrv.uplink.nats.settings import Keep

MADE = datetime(2026, 1, 1, tzinfo=timezone.utc)
DAMAGED = [
    b"",
    b"\xff\xfe",
    b"[" * 5000,
    b'{"sequence":-1}',
    b'{"sequence":1,"origins":{"hall":["no hex",3]}}',
    b'{"sequence":1,"origins":{"hall":["0011223344556677",-3]}}',
    b'{"sequence":"1"}',
]


class Stream:
    """JetStream with one stream, which can be made anew, or take nothing."""

    def __init__(self) -> None:
        self.last_seq = 7
        self.made = MADE
        self.taken: list[bytes] = []
        self.takes = True

    async def stream_info(self, name: str) -> Any:
        return SimpleNamespace(state=SimpleNamespace(last_seq=self.last_seq), created=self.made)

    async def pull_subscribe(self, subject: str, **about: Any) -> Any:
        return self

    async def fetch(self, batch: int, timeout: float) -> list[Any]:
        return []

    async def consumer_info(self) -> None:
        raise Error("it is gone")

    async def unsubscribe(self) -> None:
        pass

    async def publish(self, subject: str, frame: bytes, **about: Any) -> None:
        if not self.takes:
            raise Error("no")
        self.taken.append(frame)


def service(stream: Any, state: Path) -> tuple[KeptService, io.StringIO]:
    out = io.StringIO()
    keep = Keep(("tv",), state=state)
    made = KeptService(stream, "bus.n.pub.tv", root="bus.n", server="hall", keep=keep, log=Lines(out=out))
    return made, out


def begin(stream: Any, state: Path) -> tuple[Any, str]:
    each, out = service(stream, state)
    return asyncio.run(each.begin()), out.getvalue()


def place_file(state: Path) -> Path:
    (path,) = state.glob("*.json")
    return path


@pytest.mark.parametrize("damage", DAMAGED)
def test_of_a_damaged_file_the_log_tells_and_all_goes_on(damage, tmp_path):
    begin(Stream(), tmp_path)
    place_file(tmp_path).write_bytes(damage)
    place, log = begin(Stream(), tmp_path)
    assert place.sequence == 7
    assert "does not say how far the server is" in log
    assert begin(Stream(), tmp_path)[1] == ""


def test_a_file_that_cannot_be_written_stops_nothing(tmp_path):
    """What was taken meanwhile does not come again."""
    each, out = service(Stream(), tmp_path / "missing")
    place = asyncio.run(each.begin())
    assert "cannot be written" in out.getvalue()
    place.sequence = 6
    assert asyncio.run(each.begin()).sequence == 6


def test_a_stream_that_was_made_anew_is_read_from_its_beginning(tmp_path):
    stream = Stream()
    begin(stream, tmp_path)
    stream.last_seq = 100
    assert begin(stream, tmp_path)[0].sequence == 7
    stream.made = datetime(2026, 1, 2, tzinfo=timezone.utc)
    assert begin(stream, tmp_path)[0].sequence == 0
    stream.last_seq = 0
    assert begin(stream, tmp_path)[0].sequence == 0


def test_a_stream_that_is_removed_ends_the_reading_with_an_error(tmp_path):
    """Its consumer gives no messages then, and does not say why."""
    each, _ = service(Stream(), tmp_path)

    async def consume() -> None:
        await each.consume(await each.begin(), SimpleNamespace())  # type: ignore[arg-type]

    with pytest.raises(Error, match="gone"):
        asyncio.run(asyncio.wait_for(consume(), 30))


def test_what_the_stream_does_not_take_is_given_up_together(tmp_path, monkeypatch):
    """Not one after the other: the last one would wait for hours."""
    monkeypatch.setattr(kept, "PATIENCE", 0.2)
    monkeypatch.setattr(kept, "_AGAIN", 0.05)
    stream = Stream()
    stream.takes = False
    each, _ = service(stream, tmp_path)
    lost: list[int] = []

    async def publish() -> None:
        assert all(each.publish(bytes(1 << 20), 3) for _ in range(kept.MOST_WAITING >> 20))
        assert not each.publish(b"x", 1)
        assert each.waiting() == 3 * 64
        publishing = asyncio.ensure_future(each.publish_all(lost.append))
        while len(lost) < 64:
            await asyncio.sleep(0.01)
        stream.takes = True
        assert each.publish(b"last", 1)
        while not stream.taken:
            await asyncio.sleep(0.01)
        publishing.cancel()

    # One after the other, they would take 64 times 0.2 seconds.
    asyncio.run(asyncio.wait_for(publish(), 10))
    assert lost == [3] * 64
    assert stream.taken == [b"last"]


def test_a_state_directory_that_cannot_be_used_is_said_at_start(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"--state .*file.inside: Not a directory"):
        check_state(tmp_path / "file" / "inside")
    check_state(tmp_path / "new" / "one")
