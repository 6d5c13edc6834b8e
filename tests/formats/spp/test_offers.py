"""Offers and removals: clients that are told late are told everything, in an order that makes sense."""

from __future__ import annotations

import gc
from collections import Counter, deque
from types import SimpleNamespace
from typing import Any
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from bussrv.formats.spp.offers import MOST_UNUSED, Offers
from bussrv.formats.spp.protocol import NewestStates
from bussrv.memory.bundle import KeptBundle
from bussrv.memory.limits import CHUNK_COST, HOLD_COST, MemoryLimit
from bussrv.net.session.backlog import Backlog
from bussrv.policy.permissions.permissions import EVERYTHING
from bussrv.turns.slices import Slices
from bussrv.values import Publication, Traffic
from bussrv.wire import spp
from bussrv.wire.spp import Info, Offer, Removed, SppReader
from tests.formats.network import Network

SERVICES = ["door", "radio", "tv"]
CLIENTS = 4
TICK = 0.001
"""Each look at the clock takes so long."""

FLAPS = 1000
MANY = 200


class TickingClock(Clock):
    def seconds(self) -> float:
        self.rightNow += TICK
        return self.rightNow


class Client:
    """A client, and what it was sent."""

    def __init__(self, offers: Any) -> None:
        self.offers = offers
        self.got: list[spp.Event] = []
        self.expected: list[spp.Event] = []

    def tell(self, bundle: Any) -> None:
        reader = SppReader("server")
        reader.feed(bundle.joined)
        while (event := reader.next_event()) is not None:
            self.got.append(event)

    def send(self, event: spp.Event) -> None:
        self.offers.catch_up(self)
        self.got.append(event)


class Scene:
    """Services, and clients that are told of them a slice at a time."""

    def __init__(self) -> None:
        self.clock = TickingClock()
        self.services: dict[str, str] = {}
        slices = Slices(self.clock, 2 * TICK, Counter())
        registry = SimpleNamespace(state=SimpleNamespace(services=self.services))
        bus: Any = SimpleNamespace(slices=slices, service_names=lambda: sorted(self.services), registry=registry)
        self.offers: Any = Offers(bus)
        self.clients: list[Client] = []

    def join(self) -> None:
        client = Client(self.offers)
        self.offers.join(client)
        client.expected = [Offer(service) for service in sorted(self.services)]
        self.clients.append(client)

    def change(self, service: str) -> None:
        """It comes, or goes if it is there."""
        if service in self.services:
            del self.services[service]
            self.offers.went(service)
            told: spp.Event = Removed(service)
        else:
            self.services[service] = ""
            self.offers.appeared(service)
            told = Offer(service)
        for client in self.clients:
            client.expected.append(told)

    def publish(self, service: str, number: int) -> None:
        for client in self.clients[number % 2 :: 2]:
            info = Info(service, b"%d" % number)
            client.send(info)
            client.expected.append(info)


def of(service: str, packets: list[spp.Event]) -> list[spp.Event]:
    """The packets of a service, without each time that it came and went, and nothing was published meanwhile."""
    left: list[spp.Event] = []
    for packet in packets:
        if getattr(packet, "service", None) != service:
            continue
        if isinstance(packet, Removed) and left and isinstance(left[-1], Offer):
            left.pop()
        else:
            left.append(packet)
    return left


def last_offers(packets: list[spp.Event]) -> list[spp.Event]:
    """What is offered in the end, by the last offer."""
    offered: dict[str, spp.Event] = {}
    for packet in packets:
        if isinstance(packet, (Offer, Removed)):
            offered.pop(packet.service, None)
        if isinstance(packet, Offer):
            offered[packet.service] = packet
    return list(offered.values())


def check(client: Client) -> None:
    for service in SERVICES:
        assert of(service, client.got) == of(service, client.expected)
        told = [each for each in client.got if isinstance(each, (Offer, Removed)) and each.service == service]
        assert [type(each) for each in told] == [(Offer, Removed)[number % 2] for number in range(len(told))]
    infos = [[each for each in packets if isinstance(each, Info)] for packets in (client.got, client.expected)]
    assert infos[0] == infos[1]
    assert last_offers(client.got) == last_offers(client.expected)


_steps = st.one_of(
    *[st.tuples(st.just("change"), st.sampled_from(SERVICES))] * 4,
    st.tuples(st.just("publish"), st.sampled_from(SERVICES)),
    st.tuples(st.sampled_from(["join", "leave", "turn", "turn"]), st.just("")),
)


@given(st.lists(_steps, max_size=60))
def test_everybody_is_told_the_same_in_an_order_that_makes_sense(steps: list[tuple[str, str]]) -> None:
    scene = Scene()
    for _ in range(CLIENTS):
        scene.join()
    for number, (what, service) in enumerate(steps):
        if what == "change":
            scene.change(service)
        elif what == "publish":
            scene.publish(service, number)
        elif what == "join":
            scene.join()
        elif what == "leave" and scene.clients:
            scene.offers.leave(scene.clients.pop(number % len(scene.clients)))
        elif what == "turn":
            turn(scene.clock)
    while scene.clock.getDelayedCalls():
        turn(scene.clock)
    for client in scene.clients:
        check(client)
    assert not any(view._packets for view in scene.offers._views.values()), "what everybody was told is kept"


class Sees:
    """Permissions to know of some services."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def sees_service(self, name: str) -> bool:
        return name in self.names


PERMISSIONS = (EVERYTHING, *(Sees(frozenset(names)) for names in ([], ["tv"], ["tv", "radio"], ["door"])))

_permission_steps = st.one_of(
    *[st.tuples(st.just("change"), st.sampled_from(SERVICES))] * 3,
    *[st.tuples(st.sampled_from(["join", "permit", "permit"]), st.sampled_from(PERMISSIONS))] * 2,
    st.tuples(st.sampled_from(["leave", "turn", "update"]), st.none()),
)


def of_one(scene: Scene, permissions: dict[Client, Any], some: Client, what: str, about: Any) -> None:
    """A step of one of the clients that there are."""
    if what == "leave":
        scene.offers.leave(some)
        del permissions[some]
    elif what == "permit":
        permissions[some] = about
        scene.offers.permit(some, about)
    elif what == "update" and not scene.offers._awaited_by:
        # What a client is sent follows all that it is told before.
        scene.offers.catch_up(some)
        assert offered(some) == {name for name in scene.services if permissions[some].sees_service(name)}


@given(st.lists(_permission_steps, max_size=60))
def test_everybody_is_offered_what_it_may_know_of(steps: list[tuple[str, Any]]) -> None:
    scene = Scene()
    permissions: dict[Client, Any] = {}
    for number, (what, about) in enumerate(steps):
        clients = list(permissions)
        if what == "change":
            scene.change(about)
        elif what == "join":
            client = Client(scene.offers)
            permissions[client] = about
            scene.offers.join(client, about)
        elif what == "turn":
            turn(scene.clock)
        elif clients:
            of_one(scene, permissions, clients[number % len(clients)], what, about)
    while scene.clock.getDelayedCalls():
        turn(scene.clock)
    for client, its in permissions.items():
        assert offered(client) == {name for name in scene.services if its.sees_service(name)}
    assert all(view.is_done and not view._packets for view in scene.offers._views.values())
    assert not scene.offers._awaited_by
    for client in permissions:
        scene.offers.leave(client)
    assert len(scene.offers._unused) <= MOST_UNUSED
    assert not scene.offers._view_of


def offered(client: Client) -> set[str]:
    """What a client was offered, and was not removed."""
    names: set[str] = set()
    for event in client.got:
        assert isinstance(event, (Offer, Removed))
        assert (event.service in names) == isinstance(event, Removed), "offered twice, or removed without an offer"
        names ^= {event.service}
    return names


def test_views_that_nobody_has_are_few() -> None:
    scene = Scene()
    for number in range(3 * MOST_UNUSED):
        client: Any = Client(scene.offers)
        scene.offers.join(client, Sees(frozenset(f"{number}")))
        scene.offers.leave(client)
    assert len(scene.offers._views) == MOST_UNUSED


@pytest.mark.dear
def test_a_view_does_not_keep_those_that_its_clients_had_before() -> None:
    """Each reload of the policy makes one."""
    scene = Scene()
    scene.change("tv")
    client: Any = Client(scene.offers)
    scene.offers.join(client)
    views = []
    for number in range(3 * MOST_UNUSED):
        scene.offers.permit(client, Sees(frozenset({"tv"} if number % 2 else ())))
        views.append(ref(scene.offers._view_of[client]))
        turn(scene.clock)
    gc.collect()
    assert sum(view() is not None for view in views) == len(scene.offers._unused) + 1 == MOST_UNUSED + 1


def test_offers_that_nobody_waits_for_are_not_counted() -> None:
    """Those who wait share them, and they are kept for clients that join later."""
    holdings = MemoryLimit(1 << 20, lambda steps: deque(steps, 0))
    kept = KeptBundle([b"offer", b"other"])
    for make in (Backlog, lambda: NewestStates(lambda _: True, Counter(), Traffic())):
        backlogs = [make(), make()]
        for backlog in backlogs:
            backlog.holding = holdings.open("a", backlog.clear)
            backlog.put(kept)
        chunks = {id(chunk) for backlog in backlogs for chunk in backlog.following()}
        assert len(chunks) == len(backlogs[0])
        assert holdings.total == sum(CHUNK_COST + HOLD_COST * 2 for _ in chunks) + kept.size
        for backlog in backlogs:
            assert b"".join(backlog.pieces(100)) == kept.joined
            backlog.clear()
        assert holdings.total == 0


def turn(clock: Clock) -> None:
    for call in clock.getDelayedCalls():
        function, arguments = call.func, call.args
        call.cancel()
        function(*arguments)


def test_a_service_that_keeps_coming_and_going_is_told_of_once() -> None:
    scene = Scene()
    for _ in range(MANY):
        scene.join()
    scene.change("tv")
    while scene.clock.getDelayedCalls():
        turn(scene.clock)
    for _ in range(2 * FLAPS):
        scene.change("tv")
    while scene.clock.getDelayedCalls():
        turn(scene.clock)
    assert all(client.got[-1] == Offer("tv") for client in scene.clients)
    # Those that are told in the first slice, before the rest of the turn is known, hear of one change more.
    assert all(len(client.got) <= 4 for client in scene.clients)
    assert sum(len(client.got) == 3 for client in scene.clients) > MANY - 10


def test_an_update_comes_after_its_offer_even_if_others_wait() -> None:
    network = Network()
    provider, subscriber, other = network.member(receive_mode="none"), network.watcher(), network.watcher()
    provider.send({"event": "services/register", "name": "tv"})
    subscriber.subscribe("tv")
    assert subscriber.received() == [Offer("tv"), Info("tv", b"")]
    assert other.received() == [Offer("tv")]
    others_are_served = [True]
    network.bus.slices.do(lambda _: bool(others_are_served))
    session_id = provider.connection.protocol.session_id
    network.registry.unregister_service(session_id, "tv")
    network.registry.register_service(session_id, "tv")
    network.bus.publish(session_id, Publication("tv", "text/plain", b"on"))
    network.bus.flush()
    newcomer = network.watcher()
    sent = [each.connection.transport.value() for each in (subscriber, other, newcomer)]
    news = spp.removed("tv") + spp.offer("tv")
    assert sent == [news + spp.info("tv", b"on"), b"", spp.offer("tv")]
    others_are_served.clear()
    assert subscriber.received() == [Removed("tv"), Offer("tv"), Info("tv", b"on")]
    assert other.received() == [Removed("tv"), Offer("tv")]
    assert newcomer.received() == [Offer("tv")]
