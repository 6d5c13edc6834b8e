"""A server in memory with bystanders of each vocabulary, and somebody who sends it what is hostile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from bussrv import events as ev
from bussrv.wire.objects import BusObject, ObjectReader
from tests.formats.network import SERVER, Member, Network, drain
from tests.formats.objects.hostile.rows import (
    BUSINESS_BYSTANDER,
    OBJECTS_BYSTANDER,
    RULES_BYSTANDER,
    SERVICE,
    Answered,
    Closed,
    Dropped,
    Refused,
    Routed,
    Row,
    Vocabulary,
)

ANNOUNCEMENTS = {OBJECTS_BYSTANDER: "routing/subscribe/notify", RULES_BYSTANDER: "routing/subscribe/notification"}
_raw = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Intruder(Member):
    """A client that sends something hostile.

    :ivar joined: whether it is a member, as far as it was told.
    """

    joined = False

    def __init__(self, network: Network, vocabulary: Vocabulary) -> None:
        super().__init__(network.connect(vocabulary.name))
        self.vocabulary = vocabulary

    def join(self) -> None:
        self.send({**self.vocabulary.join(), "id": "join"})
        reply = self.only_reply()
        assert (reply["event"], reply["in-reply-to"]) == (self.vocabulary.joined, "join")
        self.joined = True

    def send_pieces(self, pieces: Iterable[bytes]) -> None:
        transport, receive = self.connection.transport, self.connection.send_bytes
        for piece in pieces:
            if not transport.connected:
                return
            receive(piece)


class Scene:
    """A network and its bystanders, who have heard of each other already.

    :param pause: the seconds that go by before each intruder.
    :param settings: of the server.
    """

    def __init__(self, pause: float = 60, **settings: Any) -> None:
        self._pause = pause
        self.network = Network(**settings)
        network = self.network
        self.bystanders = {
            OBJECTS_BYSTANDER: network.member(receive_mode="no_echo", **{"routing-id": OBJECTS_BYSTANDER}),
            RULES_BYSTANDER: network.member(subscriptions="all", **{"routing-id": RULES_BYSTANDER}),
            BUSINESS_BYSTANDER: network.business(receive="no_echo", **{"unique-routing-id": BUSINESS_BYSTANDER}),
        }
        self.bystanders[OBJECTS_BYSTANDER].send({"event": "services/register", "name": SERVICE})
        drain(list(self.bystanders.values()))

    def intruder(self, vocabulary: Vocabulary, member: bool = True) -> Intruder:
        """Somebody who has just connected; as a member, of whom the others were told."""
        self.network.reactor.advance(self._pause)
        intruder = Intruder(self.network, vocabulary)
        if member:
            intruder.join()
            self.expect_announced(1)
        return intruder

    # What bystanders are given.

    def expect_nothing(self) -> None:
        for name, bystander in self.bystanders.items():
            assert bystander.connection.take() == b"", name

    def expect_announced(self, times: int) -> None:
        """Those who are told of members are told of one; nobody is given anything else."""
        for name, bystander in self.bystanders.items():
            heads = bystander.heads()
            if name not in ANNOUNCEMENTS:
                assert heads == []
                continue
            assert [fields["event"] for fields in heads] == [ANNOUNCEMENTS[name]] * times
            for fields in heads:
                granted = {fields["routing-id"], *fields["routing-ids"]}
                assert granted.isdisjoint({*self.bystanders, SERVER})

    def expect_farewell(self, joined: bool) -> None:
        for name, bystander in self.bystanders.items():
            told = joined and name in ANNOUNCEMENTS
            assert bystander.names() == (["routing/disconnect"] if told else [])

    def expect_routed(self, sent: Sequence[BusObject], to: tuple[str, ...], source: str) -> None:
        """These are given exactly what was sent, and the others nothing."""
        for name, bystander in self.bystanders.items():
            given = objects_in(bystander.connection.take())
            assert len(given) == (len(sent) if name in to else 0), name
            for one, other in zip(given, sent, strict=False):
                assert_same(one, other, source)

    # What comes of an input.

    def attack(self, intruder: Intruder, row: Row, pieces: Iterable[bytes]) -> None:
        """Send it, and see that what comes of it is what is to come of it."""
        intruder.send_pieces(pieces)
        outcome = row.outcome
        if isinstance(outcome, Closed):
            (error,) = intruder.heads()
            assert (error["event"], error["reason"]) == ("error", outcome.reason)
            assert "in-reply-to" not in error
            assert error["message"]
            assert not intruder.connection.is_open
            self.expect_farewell(intruder.joined)
            return
        if isinstance(outcome, Refused):
            self._expect_refused(intruder, outcome)
        elif isinstance(outcome, Answered):
            self._expect_answered(intruder, outcome)
        elif isinstance(outcome, Routed):
            assert intruder.received() == []
            self.expect_routed(objects_in(row.build(intruder.vocabulary)), outcome.to, self._routing_id(intruder))
        else:
            assert isinstance(outcome, Dropped)
            assert intruder.received() == []
            self.expect_nothing()
        self.expect_served(intruder)

    def _expect_refused(self, intruder: Intruder, outcome: Refused) -> None:
        heads = intruder.heads()
        assert [fields["event"] for fields in heads] == ["error"] * outcome.times
        for fields in heads:
            assert (fields["reason"], fields.get("in-reply-to")) == (outcome.reason, outcome.in_reply_to)
            assert fields["message"]
        self.expect_nothing()

    def _expect_answered(self, intruder: Intruder, outcome: Answered) -> None:
        vocabulary = intruder.vocabulary
        event = {"joined": vocabulary.joined, "probed": vocabulary.probe_answer}.get(outcome.event, outcome.event)
        heads = intruder.heads()
        assert [fields["event"] for fields in heads] == [event] * outcome.times
        for fields in heads:
            quoted = fields["in-reply-to"]
            assert (type(quoted), quoted) == (type(outcome.in_reply_to), outcome.in_reply_to)
        if outcome.announced:
            intruder.joined = True
            self.expect_announced(outcome.times)
        else:
            self.expect_nothing()

    def expect_served(self, intruder: Intruder) -> None:
        """The connection lives on: what is asked next is answered."""
        vocabulary = intruder.vocabulary
        if not intruder.joined:
            intruder.join()
            self.expect_announced(1)
        intruder.send({"event": vocabulary.probe, "id": "probe"})
        reply = intruder.only_reply()
        assert (reply["event"], reply["in-reply-to"]) == (vocabulary.probe_answer, "probe")
        self.expect_nothing()

    def _routing_id(self, intruder: Intruder) -> str:
        session_id = intruder.connection.protocol.session_id
        return str(self.network.registry.state.sessions[session_id].routing_id)

    # What goes on beside it.

    def expect_exchange(self, content_type: str = "text/plain") -> None:
        """A publication of one bystander reaches the others."""
        for name, bystander in self.bystanders.items():
            bystander.send({"type": content_type, "from": name}, b"news")
            for other, receiver in self.bystanders.items():
                echoed = name == other == RULES_BYSTANDER
                expected = [(name, b"news")] if name != other or echoed else []
                assert [(fields["from"], payload) for fields, payload in receiver.received()] == expected

    def leave(self, intruder: Intruder) -> None:
        """The intruder goes, if it is still there; those who knew it are told."""
        if intruder.connection.is_open:
            intruder.connection.close()
            self.expect_farewell(intruder.joined)

    def expect_ended_for(self, reason: str) -> None:
        """What the journal says of the last session that was closed."""
        assert self.network.events(ev.SessionClosed)[-1].reason == reason


def objects_in(data: bytes) -> list[BusObject]:
    """All objects of a stream."""
    reader = ObjectReader()
    reader.expect_server()
    reader.feed(data)
    found = []
    while (event := reader.next_event()) is not None:
        assert isinstance(event, BusObject)
        found.append(event)
    assert len(reader) == 0
    return found


def assert_same(given: BusObject, sent: BusObject, source: str) -> None:
    """What was given is what was sent, with the right route and an id: every other attribute to the letter."""
    assert given.payload == sent.payload
    attributes, expected = _raw(given.metadata), _raw(sent.metadata)
    assert msgspec.json.decode(attributes.pop("route")) == [source, SERVER]
    expected.pop("route", None)
    identifier, wanted = bytes(attributes.pop("id")), bytes(expected.pop("id", b"null"))
    assert wanted in (b"null", identifier)
    assert {key: bytes(value) for key, value in attributes.items()} == {
        key: bytes(value) for key, value in expected.items()
    }
