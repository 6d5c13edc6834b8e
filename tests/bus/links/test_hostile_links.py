"""Malformed and hostile inputs of a linked server: what comes of each, and that nobody else notices."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.bus.links.advertisement_fields import ADVERTISEMENTS, DISCONNECT, NOTIFY, REGISTER, UNREGISTER
from bussrv.bus.links.jobs import MOST_STEPS
from bussrv.bus.links.remote_sessions import MOST_PENDING
from bussrv.wire.objects import MAX_ADDED
from tests.bus.links.fabric import ask, homes, leave, notify, provide, say
from tests.formats.network import Member, Network, Transport, drain
from tests.formats.objects.hostile.rows import OBJECTS, obj, text, with_value
from tests.formats.objects.hostile.scene import Intruder, Scene, objects_in
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("quick_collections", "no_log")

SELF, FOE, LOCAL = "hall", "cellar", "o"
SUBSCRIBE = "routing/subscribe"


@dataclass(frozen=True)
class Row:
    """What a linked server says, and what comes of it.

    :ivar counter: the counter that counts it, if one does.
    :ivar answer: whether it is answered with an ``error`` for that reason; ``closes``: and the link is closed.
    """

    name: str
    data: bytes
    counter: str | None = None
    answer: bool = False
    closes: bool = False


def closed(name: str, data: bytes, reason: str) -> Row:
    return Row(name, data, reason, answer=True, closes=True)


def said(event: str, route: Any = (FOE,), **fields: Any) -> bytes:
    """An event; names of attributes as :func:`obj` has them."""
    return obj(event=event, route=list(route) if isinstance(route, tuple) else route, **fields)


def brief(value: Any) -> str:
    return repr(value)[:20]


FRAMING = [
    closed("metadata that is not UTF-8", b'{"event":"\xff"}\0', "bad-utf8"),
    closed("metadata that is not JSON", b'{"event":}\0', "bad-json"),
    closed("no metadata", b"\0", "bad-json"),
    closed("a byte order mark", b'\xef\xbb\xbf{"event":"x"}\0', "bad-json"),
    closed("an array", b"[]\0", "not-an-object"),
    closed("a negative size", b'{"size":-1}\0', "bad-size"),
    closed("a size that is text", b'{"size":"1"}\0', "bad-size"),
    closed("an enormous size", b'{"size":1099511627776}\0', "payload-too-large"),
    closed("metadata without an end", b'{"x":"' + b"x" * (80 << 10), "metadata-too-large"),
    closed("deep nesting", with_value("x", "[" * 100 + "]" * 100), "nesting-too-deep"),
    Row("a tiding without an end", b'{"event":"routing/disconnect"'),
    Row("an event that is no string", b'{"event":7}\0', "bad-attribute", answer=True),
    Row("a recipient that is no string", b'{"event":"x","to":7}\0', "bad-attribute", answer=True),
    Row("a type that is no string", b'{"type":[]}\0', "bad-attribute", answer=True),
    Row("an id that is an object", b'{"event":"x","id":{}}\0', "bad-attribute", answer=True),
    Row("natures that are no strings", b'{"event":"x","natures":7}\0', "bad-attribute", answer=True),
]

ODD_IDS = [7, True, "", "x" * 256, ["ann"], {"ann": 1}]
ODD_NAMES = [None, 7, "", "a\nb", "\x7f", "x" * 256, ["tv"]]
ODD_ROUTES = [7, "cellar", [7], [None], [["cellar"]], {"cellar": 1}, True]

ATTRIBUTES = [
    *(
        Row(f"{event} of {brief(odd)}", said(event, routing_id=odd, name="tv"), "bad-attribute")
        for event in ADVERTISEMENTS
        for odd in ODD_IDS
    ),
    *(Row(f"{event} of nobody", said(event), "bad-attribute") for event in (*NOTIFY, DISCONNECT)),
    *(
        Row(f"{brief(odd)} as further routing ids", said(NOTIFY[0], routing_id="ann", routing_ids=odd), "bad-attribute")
        for odd in (7, True, [7], [""], [None], ["x" * 256])
    ),
    *(
        Row(f"{brief(odd)} as a service", said(REGISTER, routing_id="ann", name=odd), "bad-service-name")
        for odd in ODD_NAMES
    ),
    *(
        Row(f"{event} with {brief(odd)} as route", said(event, odd, routing_id="ann", name="tv"), "bad-attribute")
        for event in ("door/opened", *ADVERTISEMENTS)
        for odd in ODD_ROUTES
    ),
]

SEVERAL = [
    *(
        Row(f"{brief(odd)} as several services", said(REGISTER, routing_id="ann", names=odd), "bad-attribute")
        for odd in (7, "tv", {}, [], None)
    ),
    *(
        Row(f"{brief(odd)} among several", said(REGISTER, routing_id="ann", names=["tv", odd]), "bad-service-name")
        for odd in ODD_NAMES
    ),
]

FORGED = [
    *(
        Row(f"{event} over {name}", said(event, ("ann", *route), routing_id="ann", name="tv"))
        for event in (NOTIFY[0], REGISTER)
        for name, route in {
            "this server": (SELF, FOE),
            "this server last": (FOE, SELF),
            "17 servers": (*(f"s{number}" for number in range(16)), FOE),
            "10,000 servers": ("s",) * 10_000,
        }.items()
    ),
    Row("an object that was here", obj(event="x", id=1, route=["ann", SELF, FOE]), "link-loop"),
    Row("an object of this server", obj(event="x", id=1, route=[SELF]), "link-loop"),
    Row("an object over 10,000 servers", obj(event="x", id=1, route=["s"] * 10_000), "link-too-far"),
    *(
        Row(f"{event} of {whom}", said(event, routing_id=whom, name="tv", routing_ids=["door"]))
        for event in ADVERTISEMENTS
        for whom in (SELF, FOE, LOCAL)
    ),
    Row("a member of this server ends all its services", said(UNREGISTER, routing_id=LOCAL)),
    Row("a member of this server that leaves its route", said(UNREGISTER, (LOCAL, SELF), name="kitchen")),
    Row("a disconnect of nobody known", said(DISCONNECT, routing_id="ghost")),
    Row("an unregister of nobody known", said(UNREGISTER, routing_id="ghost", name="tv")),
    Row("a service of nobody", obj(event=REGISTER, name="tv")),
]

WORDS_OF_SERVERS = [
    Row("a second subscription", said(SUBSCRIBE, role="server", routing_id="attic", subscriptions=["*"])),
    Row("a subscription of a client", said(SUBSCRIBE, ("ann", FOE), receive_mode="all", to=LOCAL)),
    Row("a reply that nobody asked for", said("routing/subscribe/reply", routing_id="o", to=["o", "r", "b"])),
    Row("neighbors", said("routing/announcement/neighbors", neighbors=["attic", {"routing-id": "shed"}])),
    Row("interest of a route-only server", said("routing/announcement/interest", anew=True, types=7)),
    Row("odd neighbors", said("routing/announcement/neighbors", ("x", FOE), neighbors={"a": 7}, to="o")),
    Row("an error", said("error", reason="bad-json", message="no")),
    Row("a pong", said("pong", in_reply_to=7)),
    Row("something else for this server", said("door/opened", ("ann", FOE), to=SELF)),
]

FLOODS = [
    Row("2,000 who come and go", (said(NOTIFY[0], routing_id=SELF) + said(DISCONNECT, routing_id="x")) * 1000),
    Row("1,000 odd advertisements", said(NOTIFY[0], routing_id=7) * 1000, "bad-attribute"),
    Row("1,000 objects that were here", obj(event="x", route=[SELF, FOE]) * 1000, "link-loop"),
]

ROWS = [*FRAMING, *ATTRIBUTES, *SEVERAL, *FORGED, *WORDS_OF_SERVERS, *FLOODS]


class LinkScene(Scene):
    """Also knows how it was before a link."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._before = self.network.registry.state.copy()
        self._calls = len(self.network.reactor.getDelayedCalls())

    def expect_nothing_left(self, foe: Foe) -> None:
        """Everything is as it was before, and nothing holds on to the connection."""
        assert self.network.registry.state == self._before
        assert len(self.network.reactor.getDelayedCalls()) == self._calls
        if foe.connection.is_open:
            foe.connection.close()
        foe.connection.protocol = None  # type: ignore[assignment]
        foe.connection.transport = Transport()
        gc.collect()
        assert foe.protocol_reference() is None


class Foe(Intruder):
    """A linked server that says something hostile."""

    joined = True
    routing_id = FOE

    def __init__(self, network: Network) -> None:
        Member.__init__(self, network.connect("objects", "127.0.0.1"))
        self.vocabulary = OBJECTS
        self.protocol_reference = weakref.ref(self.connection.protocol)
        self.send({"event": SUBSCRIBE, "role": "server", "routing-id": FOE})
        assert self.names()[:2] == ["routing/subscribe/reply", SUBSCRIBE]


def test_the_table_has_enough_rows_and_no_name_twice() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) >= 60


def expect_own_addresses(scene: Scene) -> None:
    """Each bystander is reached at its own routing id, and nobody else is there."""
    for name in scene.bystanders:
        scene.bystanders["b"].send({"event": "door/opened", "to": name})
        given = {other: receiver.names() for other, receiver in scene.bystanders.items()}
        assert given == {other: ["door/opened"] * (name == other != "b") for other in given}


@each_row("row", [pytest.param(row, id=row.name) for row in ROWS])
def test_the_outcome_is_as_documented_and_nobody_else_notices(row: Row) -> None:
    scene = LinkScene()
    network = scene.network
    foe = Foe(network)
    drain([*scene.bystanders.values()])
    linked, counted = network.registry.state.copy(), network.bus.counters.copy()
    foe.send_pieces([row.data])
    assert [(head["event"], head["reason"]) for head in foe.heads()] == [("error", row.counter)] * row.answer
    times = max(1, row.data.count(b"\0")) if row.counter else 0
    counted["link-objects"] = network.bus.counters["link-objects"]
    assert network.bus.counters - counted == ({row.counter: times} if row.counter else {})
    assert foe.connection.is_open != row.closes
    if not row.closes:
        assert network.registry.state == linked
        scene.expect_nothing()
        expect_own_addresses(scene)
        foe.connection.close()
    assert [bystander.names() for bystander in scene.bystanders.values()] == [[DISCONNECT], [DISCONNECT], []]
    scene.expect_exchange()
    scene.expect_nothing_left(foe)


# Legal oddities: taken for what they are worth.


@each_row(
    ("odd", "taken"),
    [
        ({"routing-ids": [SELF, FOE, LOCAL, "door", "door"]}, {"routing_ids": ("door",)}),
        ({"role": 7}, {"role": None}),
        ({"protocol": {"a": 7}}, {"protocol": "objects"}),
        ({"directory": "yes", "role": "server"}, {"role": "server"}),
        ({"route": None}, {"home": FOE}),
    ],
    ids=repr,
)
def test_an_odd_member_is_a_member(odd: dict[str, Any], taken: dict[str, Any]) -> None:
    network = LinkScene().network
    about = {"routing-id": "ann", "route": [FOE], **odd}
    Foe(network).send({"event": NOTIFY[1], **{key: value for key, value in about.items() if value is not None}})
    session = next(each for each in network.registry.state.sessions.values() if each.routing_id == "ann")
    assert {key: getattr(session, key) for key in taken} == taken


def test_services_of_the_server_itself_are_provided_by_no_other() -> None:
    scene = LinkScene()
    foe = Foe(scene.network)
    for name in ("bus/status", "bus/"):
        foe.send({"event": REGISTER, "routing-id": "ann", "name": name, "route": ["ann", FOE]})
    assert set(scene.network.registry.state.services) == {"kitchen"}


def test_a_local_member_keeps_its_routing_id_before_a_remote_one() -> None:
    network = Network()
    member, foe = network.member(**{"routing-id": "ann"}), Foe(network)
    notify(foe, "ann")
    assert homes(network) == {}
    member.connection.close()
    assert homes(network) == {"ann": FOE}
    leave(foe, "ann")
    assert homes(network) == {}


def test_a_session_whose_disconnect_lacks_its_routing_id_is_gone() -> None:
    network = Network()
    foe, other = network.server(FOE), network.server("attic")
    for name in ("ann", "bob"):
        notify(foe, name)
    foe.send({"event": DISCONNECT, "route": ["ann", FOE]})
    other.send({"event": DISCONNECT, "route": ["bob", "attic"]})
    foe.send({"event": DISCONNECT, "route": []})
    assert homes(network) == {"bob": FOE}
    assert network.bus.counters["bad-attribute"] == 1


def test_a_flood_of_members_and_services_is_gone_with_the_link() -> None:
    scene = LinkScene(max_linked=1000)
    foe = Foe(scene.network)
    for number in range(400):
        notify(foe, f"far{number}", **{"routing-ids": ["door"]})
        provide(foe, f"far{number % 7}", f"service{number}")
    for number in range(1000):
        provide(foe, "greedy", f"more{number}")
    assert 600 < len(scene.network.registry.state.services) + len(homes(scene.network)) <= 1001
    assert len(scene.network.events(ev.LimitReached)) == 1
    assert foe.connection.is_open
    foe.connection.close()
    drain([*scene.bystanders.values()])
    scene.expect_exchange()
    scene.expect_nothing_left(foe)


def full(network: Network) -> tuple[Network, Member]:
    """A server that told of six members."""
    cellar = network.server(FOE)
    for name in ("ann", "bob", "eve", "sue", "tom", "zoe"):
        notify(cellar, name)
    return network, cellar


def test_sessions_and_services_are_learned_up_to_the_limit() -> None:
    network, cellar = full(Network(max_linked=4))
    member = network.member()
    assert set(homes(network)) in ({"ann", "bob", "eve"}, {"ann", "bob", "eve", "sue"})
    (reached,) = network.events(ev.LimitReached)
    assert (reached.limit, reached.value, reached.reason) == ("max-linked", 4, "link-full")
    leave(cellar, "ann")
    notify(cellar, "tom")
    say(cellar, "bob", id="1")
    assert "tom" in homes(network)
    assert member.names()[-1] == "text/plain"


def test_the_limit_is_exact_and_counts_each_once() -> None:
    network, _ = full(Network(max_linked=4))
    assert (set(homes(network)), network.bus.counters["link-full"]) == ({"ann", "bob", "eve", "sue"}, 2)


def test_all_links_together_have_a_limit_of_sessions() -> None:
    network = Network(max_remote_sessions=6, max_sessions=4)
    cellar, attic = network.server(FOE), network.server("attic")
    for server in (cellar, attic):
        for number in range(3):
            notify(server, f"{server.routing_id}-{number}")
    # The two servers count, too; what is known already may be told of again, and over another link.
    known = {"cellar-0", "cellar-1", "cellar-2", "attic-0"}
    notify(attic, "attic-0", **{"routing-ids": ["door"]})
    notify(attic, "cellar-0")
    assert set(homes(network)) == known
    assert network.bus.counters["too-many-remote-sessions"] == 2
    assert {event.limit for event in network.events(ev.LimitReached)} == {"max-remote-sessions"}
    leave(cellar, "cellar-1")
    notify(attic, "attic-1")
    assert "attic-1" in homes(network)
    # Clients have a limit of their own.
    assert network.member().routing_id
    network.member()
    assert network.bus.counters["max-sessions"] == 0


def test_a_flood_of_sessions_is_written_down_bit_by_bit() -> None:
    network = Network()
    foe, watcher = network.server(FOE), network.watcher()
    network.journal.hold()
    count = 10 * MOST_PENDING
    foe.connection.send_bytes(
        b"".join(said(NOTIFY[1], routing_id=f"far{number}", routing_ids=[]) for number in range(count))
        + b"".join(said(REGISTER, routing_id="far0", name=f"service{number}") for number in range(count))
        + obj(event="services/register", name="news", routing_id="far1", route=["far1", FOE])
        + obj(type="text/plain", size=4, sender="news", id=1, route=["far1", FOE])
        + b"late"
    )
    rounds = 0
    while len(homes(network)) < count or len(network.registry.state.services) < count + 1:
        # Each session has two entries: it is opened, and it is a member.
        assert 0 < network.journal.held <= 2 * MOST_PENDING
        network.journal.release(network.journal.held)
        network.reactor.advance(0)
        rounds += 1
    network.journal.release()
    assert rounds >= 10
    assert watcher.messages() == []
    watcher.subscribe("news")
    assert watcher.messages()[-1] == b"late"


def test_a_flood_that_the_journal_refused_is_entered_bit_by_bit() -> None:
    network = Network()
    foe = network.server(FOE)
    count = 5 * MOST_PENDING
    network.journal.fail("full")
    for number in range(count):
        notify(foe, f"far{number}")
        network.reactor.advance(0.001)
    assert homes(network) == {}
    network.journal.fail(None)
    network.reactor.advance(2)
    network.reactor.advance(2)
    assert len(homes(network)) == count


def test_a_link_ends_bit_by_bit_and_one_back_meanwhile_stays() -> None:
    network = Network()
    older = network.server(FOE)
    for number in range(10 * MOST_STEPS):
        notify(older, f"far{number}")
    older.connection.close()
    assert len(homes(network)) >= 8 * MOST_STEPS
    newer = network.server(FOE)
    notify(newer, f"far{10 * MOST_STEPS - 1}")
    for _ in range(12):
        before = len(homes(network))
        network.reactor.advance(0)
        assert before - len(homes(network)) <= MOST_STEPS
    assert homes(network) == {f"far{10 * MOST_STEPS - 1}": FOE}


def test_a_remote_member_has_no_more_routing_ids_than_a_client() -> None:
    network = Network(max_routing_ids=10)
    notify(network.server(FOE), "ann", **{"routing-ids": [f"door{number}" for number in range(1000)]})
    assert all(len(session.routing_ids) <= 10 for session in network.registry.state.sessions.values())


def test_the_largest_object_of_a_client_does_not_end_links() -> None:
    home, next_server = Network(server_id="attic"), Network()
    attic = next_server.server("attic")
    cellar = home.server(SELF)
    member, receiver = home.member(), next_server.member()
    drain([attic, cellar, receiver])
    size = home.bus.settings.max_metadata - len(text({"event": "x", "id": 1, "x": ""}))
    member.send({"event": "x", "id": 1, "x": "x" * size})
    attic.connection.send_bytes(cellar.connection.take())
    assert attic.connection.is_open
    assert receiver.names() == ["x"]


def test_what_is_told_on_is_never_more_than_a_server_takes() -> None:
    network = Network()
    foe, attic = network.server(FOE), network.server("attic")
    longest = network.bus.settings.max_metadata
    ids = ["x" * 255] * 253
    told = {"event": NOTIFY[1], "routing-id": "ann", "routing-ids": [*ids, ""], "route": [FOE]}
    notify(foe, "ann", **{**told, "routing-ids": [*ids, "x" * (longest - len(text(told)))]})
    assert homes(network) == {"ann": FOE}
    assert all(len(each.metadata) <= longest + MAX_ADDED for each in objects_in(attic.connection.take()))


@pytest.fixture
def network() -> Network:
    return Network()


def test_a_client_does_not_become_a_server(network: Network) -> None:
    client = Member(network.connect("objects", "127.0.0.1"))
    client.send({"event": "routing/subscribe", "routing-id": "cellar"})
    client.send({"event": SUBSCRIBE, "role": "server", "routing-id": FOE})
    assert [head.get("reason") for head in client.heads()] == [None, "bad-subscription"]
    client.send({"event": "ping"})
    assert client.names() == ["pong"]
    assert network.events(ev.LinkUp) == []


def test_a_client_with_a_servers_routing_id_does_not_keep_it_out(network: Network) -> None:
    network.member(**{"routing-ids": ["cellar"]})
    assert ask(network, **{"routing-id": "cellar"})[0].connection.is_open


def test_a_newer_link_replaces_the_older_of_a_server_known_twice(network: Network) -> None:
    network.server("cellar")
    notify(network.server("attic"), "cellar", role="server", route=["cellar", "attic"])
    newer, heads = ask(network, **{"routing-id": "cellar"})
    assert heads[0]["event"] == "routing/subscribe/reply"
    assert newer.connection.is_open


@pytest.mark.parametrize("object_id", ["1", 1, True, 1 << 60, 1.5])
def test_an_object_that_comes_over_two_links_is_passed_on_once(network: Network, object_id: Any) -> None:
    attic, cellar, member = network.server("attic"), network.server(FOE), network.member()
    for server in (attic, cellar, attic):
        say(server, "ann", "shed", id=object_id)
    assert (member.names(), network.bus.counters["link-duplicate"]) == (["text/plain"], 2)


def test_two_servers_members_with_one_routing_id_are_two_senders(network: Network) -> None:
    attic, cellar, member = network.server("attic"), network.server(FOE), network.member()
    say(attic, "ann", id=1)
    say(cellar, "ann", id=1)
    assert member.names() == ["text/plain"] * 2


def test_nothing_from_a_link_is_a_publication_of_a_local_member(network: Network) -> None:
    provider, watcher, cellar = network.member(**{"routing-id": "ann"}), network.watcher(), network.server(FOE)
    provider.send({"event": REGISTER, "name": "tv"})
    watcher.subscribe("tv")
    watcher.received()
    say(cellar, "ann", id=1, payload=b"forged")
    assert watcher.messages() == []


def test_the_longest_way_is_sixteen_servers(network: Network) -> None:
    cellar, member = network.server(FOE), network.member()
    for length in (13, 14, 15):
        say(cellar, "ann", *(f"s{number}" for number in range(length)), id=length)
    assert [head["id"] for head in member.heads()] == [13, 14]
    assert network.bus.counters["link-too-far"] == 1
