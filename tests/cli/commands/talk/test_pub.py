"""``bussrv pub`` at a real server."""

from __future__ import annotations

import io
import sys
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.cli.commands.talk.pub import _lines
from bussrv.cli.traffic.joining import joined
from bussrv.cli.traffic.receiving import receiving
from bussrv.client.blocking import connect
from bussrv.client.objects import ObjectsClient
from tests.cli.conftest import Place, run
from tests.cli.talking import HERE, next_of

pytestmark = pytest.mark.processes


def test_lines_of_the_standard_input_are_published_one_by_one(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\r\nthree")))
    with receiving(HERE, "objects", ["li?es"]) as receiver:
        assert run("pub", "lines", "--lines")[0] == 0
        assert [next_of(receiver).payload for _ in range(3)] == [b"one", b"two", b"three"]


@given(st.lists(st.text("ab\r\n", min_size=1).map(str.encode), max_size=20))
def test_lines_come_whole_and_at_once_however_they_are_read(pieces: list[bytes]) -> None:
    stream = Mock(read1=Mock(side_effect=[*pieces, b""]))
    seen: list[bytes] = []
    for batch in _lines(stream):
        seen += batch
        read = b"".join(pieces[: stream.read1.call_count])
        assert len(seen) == read.count(b"\n") + (len(pieces) < stream.read1.call_count and not read.endswith(b"\n"))
    assert seen == [each.rstrip(b"\r\n") for each in io.BytesIO(b"".join(pieces))]


def test_not_too_many_lines_are_published_at_the_same_time() -> None:
    assert [len(batch) for batch in _lines(io.BytesIO(b"\n" * 2500))] == [1000, 1000, 500]


def test_a_line_that_is_refused_is_an_error(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = run("pub", "bus/clock", "12:00")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"12:00\n12:01\n")))
    assert run("pub", "bus/clock", "--lines") == refused


def test_pub_answers_requests_that_it_was_given_meanwhile(place: Place) -> None:
    with joined(connect, HERE, "business") as publisher, ObjectsClient(port=place.server.port("objects")) as asker:
        publisher.publish("brief", confirm=True)
        asker.subscribe()
        asker.send({"event": "services/request", "name": "brief", "id": "1"})
        answer = asker.wait_for(lambda each: each.metadata.get("in-reply-to") == "1").metadata
    assert (answer["event"], answer["reason"]) == ("error", "no-such-service")
