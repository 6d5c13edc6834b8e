"""A wire format as the plugin page says it is written: clients that were denied something do not get it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from msgspec import Struct
from twisted.logger import capturedLogs
from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.groups.frames import Delivery
from bussrv.bus.interfaces import IBus, IEncoding, IFilteringLink
from bussrv.errors import Refused
from bussrv.net.session.client_link import StreamLink
from bussrv.net.session.factory import StreamFactory
from bussrv.net.session.identification import MAX_FAILURES
from bussrv.net.session.input import FREE_INPUT
from bussrv.net.session.protocol import StreamProtocol
from bussrv.policy.permissions.file import parse_policy
from bussrv.registry.interfaces import IRegistry
from bussrv.wire.reader import StreamReader
from bussrv.wire.spp import Offer
from tests.docs.pages import blocks
from tests.formats.network import Connection, Network
from tests.logins import USERS, identity_of
from tests.tables import each_row

POLICY = '[[rule]]\nusers = ["ann"]\nprovide = ["door"]\npublish = ["door", "tv"]\nwatch = ["door"]\n'


def page() -> dict[str, Any]:
    """The module on the page."""
    module: dict[str, Any] = {"__name__": "lines_format"}
    exec(blocks("docs/how-to/plugins.md", "python")[0], module)
    return module


class Person:
    """A client of the format of the page."""

    def __init__(self, network: Network, protocol: type[StreamProtocol] | None = None, host: str = "10.0.0.1") -> None:
        factory = StreamFactory(protocol or page()["LinesProtocol"], network.bus, network.reactor)
        self.connection = Connection(factory.buildProtocol(None), host)

    def ask(self, line: str) -> list[str]:
        self.connection.send_bytes(line.encode() + b"\n")
        return self.connection.take().decode().splitlines()


def guarded() -> Network:
    """A server that knows ann, who may do something about the door."""
    network = Network()
    network.bus.identity = identity_of(USERS, network.reactor)
    network.bus.access.asks = True
    network.bus.access.policy = parse_policy(POLICY, Path("policy.toml"), ["objects", "spp", "lines"])
    return network


STRANGER = "# this server serves only clients that say who they are, with a secret"


def test_a_stranger_changes_nothing_and_a_user_only_what_it_may() -> None:
    network = guarded()
    person = Person(network)
    for line in ("SUB door", "PUB door open", "PUB tv news"):
        assert person.ask(line) == [STRANGER]
    assert (network.registry.state.services, network.registry.state.subscriptions) == ({}, {})
    assert person.ask("LOGIN ann wrong") == ["# there is no such user, or its secret is another"]
    assert person.ask("LOGIN ann s3cret") == ["# you are ann"]
    assert person.ask("SUB tv") == ["# the policy does not allow you to watch 'tv'"]
    assert person.ask("PUB tv news") == ["# the policy does not allow you to provide 'tv'"]
    assert person.ask("SUB bad\x01name") == ["# the policy does not allow you to watch 'bad\\x01name'"]
    assert network.registry.state.services == {}
    assert person.ask("PUB door open") == []
    assert person.ask("SUB door") == ["# subscribed to door", "door open"]
    assert person.ask("PUB door shut") == ["door shut"]
    assert list(network.registry.state.services) == ["door"]
    denied = [(each.action, each.target, each.actor) for each in network.events(ev.AccessDenied)]
    assert denied == [("watch", "tv", "ann"), ("provide", "tv", "ann"), ("watch", "bad\x01name", "ann")]


def test_the_last_wrong_login_is_answered_before_the_end() -> None:
    network = guarded()
    person = Person(network)
    for _ in range(MAX_FAILURES):
        assert person.connection.is_open
        told, *farewell = person.ask("LOGIN ann wrong")
        assert told == "# there is no such user, or its secret is another"
    assert farewell == ["# bye: authentication-failed"]
    assert not person.connection.is_open


def test_what_a_protocol_has_in_public_checks() -> None:
    """Neither the registry nor the bus is there without an underscore, which no author types by accident."""
    protocol = Person(Network()).connection.protocol
    public = {name: getattr(protocol, name) for name in dir(protocol) if not name.startswith("_")}
    assert {"subscribe", "provide", "publish", "send", "settings"} <= public.keys()
    assert [name for name, value in public.items() if IBus.providedBy(value) or IRegistry.providedBy(value)] == []


def test_nobody_publishes_on_a_service_of_somebody_else() -> None:
    network = Network()
    owner = network.member()
    owner.send({"event": "services/register", "name": "door"})
    watcher = network.watcher()
    watcher.subscribe("door")
    assert watcher.received()[0] == Offer("door")
    module = page()

    class Forging(module["LinesProtocol"]):  # type: ignore[misc]
        async def pub(self, name: str, text: str) -> None:
            self.publish(module["Publication"](name, "text/plain", text.encode()))

    assert Person(network, Forging).ask("PUB door open") == ["# the service 'door' is not registered by this session"]
    assert watcher.messages() == []


def test_a_service_is_given_up_once_that_is_durable() -> None:
    network = Network()

    class Leaving(page()["LinesProtocol"]):  # type: ignore[misc]
        async def login(self, name: str, _: str) -> None:
            await self.unprovide(name)
            self.say(f"left {name}")

    person, other = Person(network, Leaving), Person(network, Leaving)
    person.ask("PUB door open")
    assert other.ask("LOGIN door") == ["# the service 'door' is not registered by this session"]
    assert network.bus.counters["not-registered"] == 1
    network.journal.hold()
    assert person.ask("LOGIN door") == []
    assert list(network.registry.state.services) == ["door"]
    network.journal.release()
    assert person.ask("SUB door") == ["# left door", "# subscribed to door"]
    assert network.registry.state.services == {}
    assert [each.service for each in network.events(ev.ServiceUnregistered)] == ["door"]
    person.ask("PUB door open")
    network.journal.fail("no space left")
    assert person.ask("LOGIN door") == ["# no space left"]
    assert list(network.registry.state.services) == ["door"]


def test_what_a_timer_publishes_is_sent_at_once() -> None:
    network = Network()
    module = page()
    person, other = Person(network), Person(network)
    person.ask("PUB clock 1")
    other.ask("SUB clock")
    network.reactor.callLater(5, person.connection.protocol.publish, module["Publication"]("clock", "text/plain", b"2"))
    network.reactor.advance(5)
    assert other.connection.transport.value() == b"clock 2\n"


class NoLimit(StreamReader[bytes]):
    """Waits for a line of any length."""

    def read_event(self) -> bytes | None:
        end = self.buffer.find(b"\n", len(self.buffer))
        return None if end < 0 else self.buffer.take(end + 1)


def with_reader(reader: type) -> type[StreamProtocol]:
    return type("Protocol", (page()["LinesProtocol"],), {"make_reader": lambda self: reader()})


def test_the_limit_before_a_login_holds_for_every_format() -> None:
    network = guarded()
    stranger, user = (Person(network, with_reader(NoLimit)) for _ in range(2))
    user.connection.protocol.busy_with(
        user.connection.protocol.identification.log_in(page()["Password"]("ann", b"s3cret"))
    )
    for person in (stranger, user):
        for _ in range(2):
            person.connection.send_bytes(bytes(FREE_INPUT // 2))
        assert person.connection.is_open
        person.connection.send_bytes(b"x")
    assert (stranger.connection.is_open, user.connection.is_open) == (False, True)
    assert network.events(ev.SessionClosed)[-1].reason == "packet-too-large"
    assert network.bus.streams.inbound.total == FREE_INPUT + 1


def test_input_of_every_format_counts_towards_the_total() -> None:
    network = Network(max_inbound_total=1_000_000)
    people = [Person(network, with_reader(NoLimit)) for _ in range(3)]
    for _ in range(8):
        for person in people:
            person.connection.send_bytes(bytes(50_000))
    assert network.bus.streams.inbound.total <= 1_000_000
    assert sum(person.connection.is_open for person in people) == 2
    assert network.bus.counters["inbound-full"] == 1


class Plain:
    """A reader as one might write it without a look at the page."""

    def feed(self, data: bytes) -> None:
        """Keep it."""

    def next_event(self) -> None:
        """More bytes are needed."""


@each_row(
    ("missing", "added"),
    [("__len__, clear", {}), ("__len__", {"clear": lambda self: None}), ("clear", {"__len__": lambda self: 0})],
)
def test_a_reader_without_limits_is_refused_when_it_is_made(missing: str, added: dict[str, Any]) -> None:
    with capturedLogs() as logged:
        refused = Person(Network(), with_reader(type("Mine", (Plain,), added)))
    assert not refused.connection.is_open
    (failure,) = [each["log_failure"] for each in logged]
    assert failure.getErrorMessage().startswith(f"the reader Mine has no {missing}: ")


@implementer(IEncoding)
class Numbered(Struct, frozen=True):
    """Bears the number of the subscription, and a place for that of the client."""

    number: int
    made: ClassVar[list[str]] = []

    def encode(self, delivery: Delivery) -> bytes | None:
        assert delivery.publication is not None
        self.made.append(f"{self.number} {delivery.publication.service}")
        return b"%d ? %s\n" % (self.number, delivery.payload)


def numbered(network: Network, name: str) -> Person:
    """A client that is told its own name in each frame."""

    class Personal(page()["LinesProtocol"]):  # type: ignore[misc]
        def encoding_for(self, options: dict[str, Any]) -> Numbered:
            return Numbered(options["number"])

        def personal(self, frame: bytes) -> bytes:
            return frame.replace(b"?", name.encode())

        async def sub(self, service: str, number: str) -> None:
            await self.subscribe(service, {"number": int(number)})

    return Person(network, Personal)


def test_equal_encodings_are_asked_once_and_the_rest_is_personal() -> None:
    network = Network()
    publisher, ann, ben, cat = Person(network), *(numbered(network, each) for each in ("ann", "ben", "cat"))
    publisher.ask("PUB tv on")
    for person, number in ((ann, 1), (ben, 1), (cat, 2)):
        person.ask(f"SUB tv {number}")
    publisher.ask("PUB tv off")
    told = [person.connection.take() for person in (ann, ben, cat)]
    assert told == [b"1 ann off\n", b"1 ben off\n", b"2 cat off\n"]
    assert sorted(Numbered.made) == ["1 tv", "2 tv"]


def test_a_client_is_told_once_why_its_session_ends() -> None:
    network = Network()

    class Polite(page()["LinesProtocol"]):  # type: ignore[misc]
        def farewell(self, reason: str) -> None:
            self.say(f"bye: {reason}")
            self.end("something-else")

    person = Person(network, Polite)
    person.connection.protocol.evict("closed-by-operator")
    assert person.connection.take() == b"# bye: closed-by-operator\n"
    lost = Person(network, Polite)
    lost.connection.close()
    assert lost.connection.take() == b""
    assert len(network.events(ev.SessionClosed)) == 2


def test_a_client_has_joined_once_it_may_do_anything() -> None:
    network = guarded()
    person = Person(network)
    protocol = person.connection.protocol
    assert (protocol.asks_for_login, protocol.has_joined) == (True, False)
    with pytest.raises(Refused):
        protocol.check_may_join()
    person.ask("LOGIN ann s3cret")
    protocol.check_may_join()
    assert protocol.has_joined
    person.connection.close()
    assert not protocol.has_joined
    open_to_all = Person(Network()).connection.protocol
    assert (open_to_all.asks_for_login, open_to_all.has_joined) == (False, True)


def test_memory_that_a_format_keeps_counts_for_its_client() -> None:
    network = Network(max_outbound_total=10_000)
    greedy, modest = Person(network), Person(network, host="10.0.0.2")
    modest.connection.protocol.held_memory(lambda: None).resize(1000)
    held = greedy.connection.protocol.held_memory(lambda: held.resize(0))
    held.resize(9500)
    network.reactor.advance(0)
    assert (greedy.connection.is_open, modest.connection.is_open) == (False, True)
    assert network.bus.counters["outbound-full"] == 1


def with_pattern(network: Network, **attributes: Any) -> Person:
    """A client that subscribes to a pattern."""

    class Wide(page()["LinesProtocol"]):  # type: ignore[misc]
        async def sub(self, name: str, _: str) -> None:
            await self.subscribe(name, {"own": "?"}, or_pattern=True)
            self.say(f"subscribed to {name}")

    return Person(network, type("Made", (Wide,), attributes))


@implementer(IFilteringLink)
class FilteringLink(StreamLink):
    is_away = False

    def encoding_of(self, filters: Mapping[str, dict[str, Any] | None], *, is_alone: bool) -> IEncoding:
        assert all(options == {"own": "?"} for options in filters.values())
        return self.encoding_for(None)

    def refilter(self, encoding: IEncoding, changed: str, options: dict[str, Any] | None, *, is_there: bool) -> None:
        """All clients get the same bytes."""


def test_a_format_with_a_filtering_link_may_have_patterns() -> None:
    network = Network()
    publisher, person = Person(network), with_pattern(network, LINK=FilteringLink)
    assert person.ask("SUB hall/#") == ["# subscribed to hall/#"]
    for line in ("PUB hall/1/door open", "PUB attic shut"):
        publisher.ask(line)
    assert person.connection.take() == b"hall/1/door open\n"


def test_globs_of_the_page_select_what_a_pattern_covers() -> None:
    network = Network()
    module: dict[str, Any] = {}
    exec(blocks("docs/how-to/plugins.md", "python")[2], module)

    class Globbing(page()["LinesProtocol"]):  # type: ignore[misc]
        LINK = module["GlobLink"]

        async def sub(self, name: str, _: str) -> None:
            below, _, glob = name.rpartition("/")
            await self.subscribe(*((f"{below}/#", {"globs": [name]}) if "*" in glob else (name,)), or_pattern=True)

        async def login(self, name: str, _: str) -> None:
            await self.unsubscribe(name)

    publisher, person, same = Person(network), Person(network, Globbing), Person(network, Globbing)
    for each in (person, same):
        each.ask("SUB hall/t*")
    same.ask("SUB attic")
    for number in range(65):  # So its encoding is one of its own, which is changed from now on.
        same.ask(f"SUB nothing{number}")
    for line in ("PUB hall/tv on", "PUB hall/lamp on", "PUB attic on", "PUB cellar/tv on"):
        publisher.ask(line)
    assert person.connection.take() == b"hall/tv on\n"
    assert same.connection.take() == b"hall/tv on\nattic on\n"
    same.ask("LOGIN hall/#")
    same.ask("SUB garden/tv")
    publisher.ask("PUB garden/tv on")
    assert same.connection.take() == b"garden/tv on\n"
    for line in ("PUB hall/tv off", "PUB attic off"):
        publisher.ask(line)
    assert (person.connection.take(), same.connection.take()) == (b"hall/tv off\n", b"attic off\n")


def test_a_policy_that_ends_a_pattern_changes_the_encoding() -> None:
    network = guarded()
    module: dict[str, Any] = {}
    exec(blocks("docs/how-to/plugins.md", "python")[2], module)

    class Globbing(page()["LinesProtocol"]):  # type: ignore[misc]
        LINK = module["GlobLink"]

        async def sub(self, name: str, _: str) -> None:
            await self.subscribe(name, {"globs": ["*"]} if name.endswith("#") else None, or_pattern=True)

    allowed = '[[rule]]\nusers = ["ann"]\nprovide = ["*"]\npublish = ["*"]\nwatch = [{}]\n'.format
    network.bus.access.policy = parse_policy(allowed('"*"'), Path("policy.toml"), ["lines"])
    person = Person(network, Globbing)
    for line in ("LOGIN ann s3cret", "SUB #", "SUB door", "PUB door open", "PUB tv on"):
        told = person.ask(line)
    assert told == ["tv on"]
    network.bus.access.policy = parse_policy(allowed('"door"'), Path("policy.toml"), ["lines"])
    network.bus.policy_changed()
    network.reactor.advance(1)
    assert network.registry.state.subscribed_by(person.connection.protocol.session_id) == {"door"}
    assert (person.ask("PUB tv off"), person.ask("PUB door shut")) == ([], ["door shut"])


def test_patterns_that_give_nothing_are_a_bug_of_the_plugin() -> None:
    network = Network()
    with capturedLogs() as logged:
        assert with_pattern(network).ask("SUB hall/#") == ["# bye: internal-error"]
    (failure,) = [each["log_failure"] for each in logged if "log_failure" in each]
    assert failure.getErrorMessage() == "StreamLink is no IFilteringLink, so its client cannot subscribe to patterns"
    assert network.registry.state.subscriptions == {}


def test_time_that_a_client_has_ends_its_session_unless_renewed() -> None:
    network = Network()
    beats, others = list[float](), len(network.reactor.getDelayedCalls())

    class Timed(page()["LinesProtocol"]):  # type: ignore[misc]
        def opened(self) -> None:
            self.expect_input(10, "subscribe-timeout")
            self.repeat(4, lambda: beats.append(network.reactor.seconds()))

        async def pub(self, name: str, text: str) -> None:
            self.expect_input(float(text), "keep-alive-timeout", renewed=True)

    late, quiet, talking, left = (Person(network, Timed) for _ in range(4))
    left.ask("PUB time 6")
    left.connection.close()
    quiet.ask("PUB time 0")
    talking.ask("PUB time 6")
    for _ in range(3):
        network.reactor.advance(4)
        network.reactor.advance(0)
        talking.ask("HELLO")
    assert [each.connection.is_open for each in (late, quiet, talking)] == [False, True, True]
    network.reactor.pump([6, 0])
    assert [each.connection.is_open for each in (quiet, talking)] == [True, False]
    assert [each.reason for each in network.events(ev.SessionClosed)] == [
        *("client-closed", "subscribe-timeout", "keep-alive-timeout")
    ]
    assert [network.bus.counters[f"{each}-timeout"] for each in ("subscribe", "keep-alive")] == [1, 1]
    assert beats.count(0) == 4
    assert beats.count(4.0) == 3
    quiet.connection.close()
    assert len(network.reactor.getDelayedCalls()) == others


def test_a_refusal_that_ends_the_session_is_its_fault() -> None:
    network = Network()

    class Strict(page()["LinesProtocol"]):  # type: ignore[misc]
        async def answer(self, work: Any) -> None:
            try:
                await work
            except Refused as refusal:
                self.end_over(refusal)

        async def sub(self, name: str, _: str) -> None:
            await self.subscribe(name, {"id": "7"})
            self.send_state(name)

        def farewell(self, reason: str) -> None:
            self.say(f"{reason}: {self.fault}")

    publisher, person = Person(network, Strict), Person(network, Strict)
    publisher.ask("PUB door open")
    assert person.ask("SUB door") == ["door open"]
    assert person.ask("SUB nothing") == []
    (told,) = person.ask("PUB bus/clock noon")
    assert told.startswith("# reserved-name: names that begin with bus/")
    assert not person.connection.is_open
    assert network.bus.counters["reserved-name"] == 1
    publisher.connection.send_bytes(b"x" * 1001)
    assert publisher.connection.take() == b"# packet-too-large: a line has at most 1000 bytes\n"
