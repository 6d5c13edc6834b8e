"""Server-sent events, as the client of the admin interface reads them."""

from __future__ import annotations

import pytest

from bussrv.cli.admin_client import ServerSentEvent, read_events
from bussrv.errors import RemoteProtocolError


def read(text: str, most: int = 1000) -> list[ServerSentEvent]:
    return list(read_events(text.encode().splitlines(keepends=True), most))


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("", []),
        (":\n\n: alive\n\n", []),
        ("data: one\n\n", [("", "message", "one")]),
        ("id: 7\nevent: session.opened\ndata: {}\n\n", [("7", "session.opened", "{}")]),
        ("id: 7\r\ndata:one\r\ndata:  two\r\n\r\n", [("7", "message", "one\n two")]),
        # An id holds for later events that have none; an event without data is none.
        ("id: 7\nevent: x\n\ndata: y\n\n", [("7", "message", "y")]),
        ("retry: 5\nnonsense\ndata\n\n", [("", "message", "")]),
        ("data: unfinished\n", []),
    ],
)
def test_events(text: str, events: list[tuple[str, str, str]]) -> None:
    assert read(text) == events


def test_an_event_is_bounded() -> None:
    for text in ("data: x\n" * 200, "x" * 1001, ":" + "x" * 1001 + "\n\n", "event: x\n" * 200, ":\n" * 600):
        with pytest.raises(RemoteProtocolError, match="more than 1000 bytes"):
            read(text)
    assert len(read(f":{'x' * 900}\n\ndata: {'x' * 900}\n\n" * 5)) == 5


def test_what_is_not_utf_8() -> None:
    with pytest.raises(RemoteProtocolError, match="not UTF-8"):
        list(read_events([b"data: \xff\n"]))
