"""The services that a member provides, if the server refuses them, or they come and go in any order."""

from __future__ import annotations

import pytest

from bussrv.client.errors import BusError
from bussrv.client.events import Refusal, Request, Restored
from bussrv.client.settings import Buffer
from tests.client.core.fake_server import Pair


def reasons(told: list[BusError | None]) -> list[str | None]:
    return [None if each is None else each.reason for each in told]


def publish(pair: Pair, service: str, payload: bytes, told: list[BusError | None] | None = None) -> None:
    pair.core.publish(service, payload, "a/b", {}, None if told is None else told.append)


def test_a_service_is_registered_before_publications_on_it() -> None:
    pair, handed, told = Pair(offline=Buffer()), list[Request](), list[BusError | None]()
    pair.connect()
    pair.core.provide("tv", handed.append, told.append)
    publish(pair, "tv", b"1")
    pair.exchange()
    pair.lose()
    publish(pair, "tv", b"2")
    pair.connect()
    assert pair.server.published == [("tv", b"1"), ("tv", b"2")]
    assert told == [None]
    pair.server.request("tv")
    pair.exchange()
    assert [each.asker for each in handed] == ["asker"]


def test_a_refused_service_takes_no_requests_and_is_tried_again() -> None:
    pair, told = Pair(), list[BusError | None]()
    pair.connect()
    pair.server.taken_already = {"tv"}
    pair.core.provide("tv", lambda _: None, told.append)
    pair.exchange()
    assert pair.server.rules == ["@services/reply", "@error"]
    pair.server.taken_already = set()
    pair.core.provide("tv", lambda _: None, told.append)
    pair.exchange()
    assert reasons(told) == ["not-allowed", None]
    with pytest.raises(ValueError, match="served by this client already"):
        pair.core.provide("tv", lambda _: None, told.append)


def test_no_publication_on_a_refused_service_is_confirmed() -> None:
    pair = Pair()
    pair.connect()
    pair.server.taken_already = {"tv", "radio"}
    told: dict[str, list[BusError | None]] = {"tv": [], "radio": []}
    for service in ("tv", "radio"):
        publish(pair, service, b"1", told[service])
        publish(pair, service, b"2", told[service])
    pair.core.withdraw("radio", lambda _: None)
    pair.exchange()
    assert {service: reasons(each) for service, each in told.items()} == {
        "tv": ["not-allowed"] * 2,
        "radio": ["not-allowed"] * 2,
    }
    pair.server.taken_already = set()
    publish(pair, "tv", b"3")
    pair.exchange()
    assert pair.server.published == [("tv", b"3")]


def test_a_refusal_nobody_was_told_meets_the_next_publication() -> None:
    pair = Pair()
    pair.connect()
    pair.server.taken_already = {"tv"}
    publish(pair, "tv", b"1")
    pair.exchange()
    assert isinstance(pair.states[-1], Refusal)
    with pytest.raises(BusError, match="not-allowed"):
        publish(pair, "tv", b"2")
    pair.server.taken_already = set()
    publish(pair, "tv", b"3")
    pair.exchange()
    assert pair.server.published == [("tv", b"3")]


def test_one_that_cannot_be_restored_says_so_and_takes_nothing() -> None:
    pair, told = Pair(), list[BusError | None]()
    pair.connect()
    pair.core.provide("tv", lambda _: None, told.append)
    pair.exchange()
    pair.lose()
    pair.server.taken_already = {"tv"}
    pair.connect()
    assert pair.states[-1] == Restored((), ("tv",), {"tv": "not-allowed"})
    for _ in range(2):
        with pytest.raises(BusError, match="not-allowed"):
            publish(pair, "tv", b"1", told)
    pair.lose()
    pair.server.taken_already = set()
    pair.connect()
    publish(pair, "tv", b"2", told)
    pair.exchange()
    assert (told, pair.server.published) == ([None, None], [("tv", b"2")])


def test_a_full_disk_is_waited_for() -> None:
    pair, told = Pair(), list[BusError | None]()
    pair.connect()
    for name in ("tv", "lamp"):
        pair.core.provide(name, None, told.append)
    pair.exchange()
    pair.lose()
    change = pair.server.change

    def change_with_a_disk_that_comes_back(event: str, identifier: str, service: str) -> None:
        pair.server.has_disk = service == "lamp"
        change(event, identifier, service)

    pair.server.change = change_with_a_disk_that_comes_back  # type: ignore[method-assign]
    pair.connect()
    assert pair.core.ending is not None
    assert pair.core.ending.reason == "journal-unavailable"
    assert not any(isinstance(each, Restored) for each in pair.states)


def test_a_request_for_what_is_only_published_on_is_refused() -> None:
    pair = Pair("business")
    pair.connect()
    publish(pair, "tv", b"1")
    pair.exchange()
    pair.server.request("tv")
    pair.exchange()
    assert pair.server.answered == {1: "no-such-service"}
