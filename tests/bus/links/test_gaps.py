"""Objects that were lost between servers: the journal, the log, a counter, and the members that asked say so."""

from __future__ import annotations

from typing import Any

import pytest

from bussrv import events as ev
from bussrv.bus.interest.vocabulary import GAP
from bussrv.bus.links.gaps import TOLD_GAP
from bussrv.client.core.inbox import Inbox
from bussrv.client.events import Gap
from tests.bus.links.test_interests import uplink
from tests.client.core.fake_server import Pair
from tests.formats.network import Member, Network, drain


def lose(server: Member, **said: Any) -> None:
    server.send({"event": GAP, "from": "attic", **said, "route": [server.routing_id]})


def test_a_gap_is_journaled_logged_and_counted(logged: list[str]) -> None:
    network = Network()
    server = uplink(network)
    lose(server, service="tv", lost=12, reason="objects-expired")
    lose(server, reason="whatever")
    first, second = network.events(ev.LinkGap)
    assert (first.routing_id, first.origin, first.service, first.lost) == ("uplink", "attic", "tv", 12)
    assert (first.reason, first.peer) == ("objects-expired", "127.0.0.1:4711")
    assert (second.service, second.lost, second.reason) == (None, None, "objects-lost")
    assert network.bus.counters["link-lost-objects"] == 12
    assert sum("link.gap" in each for each in logged) == 2
    for _ in range(1000):
        lose(server, lost=1)
    network.reactor.advance(60)
    lose(server, lost=1)
    written = network.events(ev.LinkGap)
    assert len(written) < 100
    assert len(written) + sum(each.suppressed or 0 for each in written) == 1003
    assert network.bus.counters["link-lost-objects"] == 1013
    assert sum("link.gap" in each for each in logged) < 50


@pytest.mark.parametrize(
    ("wanted", "services"),
    [
        ({"services": ["tv"]}, ["tv", None]),
        ({"services": ["+"], "types": "none"}, ["tv", "radio", None]),
        ({"subscriptions": [], "services": ["hall/#"]}, ["hall/tv", None]),
        ({}, [None]),
        ({"receive_mode": "none", "services": ["tv"]}, []),
    ],
)
def test_members_are_told_who_asked_and_are_subscribed(wanted: dict[str, Any], services: list[str | None]) -> None:
    network = Network()
    server = uplink(network)
    member, other = network.member(gaps=True, **wanted), network.member(**wanted)
    business, seed, watcher = network.business(gaps=True, services=["tv"]), network.business(), network.watcher()
    watcher.subscribe("tv")
    drain([member, other, business, seed])
    watcher.received()
    for number, service in enumerate(["tv", "radio", "hall/tv", None]):
        lose(server, **({} if service is None else {"service": service, "lost": number}))
    told = member.heads()
    assert [each.get("name") for each in told] == services
    assert all((each["event"], each["sender-server"], each["route"]) == (TOLD_GAP, "attic", ["hall"]) for each in told)
    assert [(each.get("name"), each.get("lost")) for each in business.heads()] == [("tv", 0), (None, None)]
    assert (other.heads(), seed.heads(), watcher.received()) == ([], [], [])
    # Who does not ask again is not told any more.
    member.send({"event": "routing/subscribe", **wanted})
    member.received()
    lose(server)
    assert member.names() == []


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        *(({"from": each}, "bad-attribute") for each in (None, 7, "", "x" * 256, "a\nb")),
        *(({"lost": each}, "bad-attribute") for each in (-1, 1.5, True, "7", 1 << 60)),
        *(({"service": each}, "bad-service-name") for each in (7, "", "a\nb", ["tv"])),
    ],
)
def test_what_is_said_wrongly_is_no_gap(said: dict[str, Any], reason: str) -> None:
    network = Network()
    server, member = uplink(network), network.member(gaps=True)
    drain([server, member])
    lose(server, **said)
    assert (network.events(ev.LinkGap), member.heads()) == ([], [])
    assert network.bus.counters[reason] == 1


def test_only_a_bussrv_neighbour_tells_of_gaps() -> None:
    network = Network()
    server, plain, member = uplink(network), network.server("plain"), network.member(gaps=True)
    drain([server, plain, member])
    plain.send({"event": GAP, "from": "attic", "route": ["plain"]})
    server.send({"event": GAP, "from": "attic", "route": ["shed", "uplink"]})
    assert (network.events(ev.LinkGap), member.heads()) == ([], [])
    for event in (GAP, TOLD_GAP):
        member.send({"event": event, "from": "attic"})
        assert member.only_reply()["reason"] == "reserved-event"


def test_the_client_shows_a_gap_in_the_subscriptions_it_concerns() -> None:
    network = Network()
    server, pair, connection = uplink(network), Pair(), network.connect("objects")
    core = pair.core
    inboxes: list[Inbox[Any]] = [Inbox(), Inbox(), Inbox()]
    for inbox, names in zip(inboxes, (["tv"], ["hall/+", "tv"], ["radio"]), strict=True):
        core.subscribe(inbox, names, lambda _: None)
    core.opened("hall:7890", 0)

    def exchange() -> None:
        for _ in range(10):
            connection.send_bytes(b"".join(core.take_output()))
            core.received(connection.take(), 0)

    exchange()
    lose(server, service="tv", lost=2)
    lose(server, service="tv", lost=3)
    lose(server, service="hall/tv", reason="objects-expired")
    exchange()
    assert [inbox.take_many(9) for inbox in inboxes] == [[Gap(5, "objects-lost")], [Gap(None, "objects-expired")], []]
    lose(server, lost=7)
    exchange()
    assert [inbox.take_many(9) for inbox in inboxes] == [[Gap(7, "objects-lost")]] * 3
