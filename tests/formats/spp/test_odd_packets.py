"""Malformed and hostile packets: what comes of each, that no other watcher notices, and what each may cost.

That it is the same in pieces, leaves nothing and takes little memory, the kit tries with the same rows:
``tests/formats/odd_inputs.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.formats.spp.silence import GRACE
from bussrv.policy.logins.users import SecretHash
from bussrv.wire import spp
from tests.formats.network import Network
from tests.formats.spp.odd_packets import (
    ACCEPTED,
    OFFER,
    ROWS,
    SECRET,
    SERVICE,
    SNAPSHOT,
    STATE,
    USER,
    Closed,
    Ignored,
    NotOffered,
    Row,
    Sent,
)
from tests.logins import ask, identity_of
from tests.tables import check_each, each_row

pytestmark = pytest.mark.usefixtures("quick_collections", "no_log")

JOURNALED = 50
"""How many records of one kind an address may cause at once."""

USERS = {USER: SecretHash(b"salt", bytes(32), 2, 1, 1).made_of(SECRET.encode())}


class Scene:
    """A server with a provider, somebody who watches it, and somebody who only looks at the offers."""

    def __init__(self, guarded: bool = False, **settings: Any) -> None:
        self.network = Network(**settings)
        self.member = self.network.member(receive_mode="none")
        self.member.send({"event": "services/register", "name": SERVICE})
        self.member.send({"type": "a/b"}, STATE)
        self.watcher, self.onlooker = self.network.watcher(), self.network.watcher()
        self.watcher.subscribe(SERVICE)
        assert self.watcher.connection.take() == OFFER + SNAPSHOT
        assert self.onlooker.connection.take() == OFFER
        if guarded:
            ask(self.network, identity_of(USERS, self.network.reactor))
        self.guarded = guarded
        self.network.reactor.advance(GRACE)

    def intruder(self) -> Intruder:
        """Somebody who has just connected, a minute after whoever was there before."""
        self.network.reactor.advance(60)
        intruder = Intruder(self.network)
        assert intruder.connection.take() == (b"" if self.guarded else OFFER)
        return intruder

    def attack(self, intruder: Intruder, row: Row, pieces: Iterable[bytes]) -> None:
        """Send it, and see that what comes of it is what is to come of it."""
        network, outcome = self.network, row.outcome
        counters, records = network.bus.counters.copy(), len(network.journal.records)
        intruder.send_pieces(pieces)
        sent = intruder.connection.take()
        assert intruder.connection.is_open == (not isinstance(outcome, Closed))
        counted = network.bus.counters - counters
        events = [record.event for record in network.journal.records[records:]]
        refused = [each for each in events if isinstance(each, ev.SubscriptionRefused)]
        if isinstance(outcome, Closed):
            assert sent == outcome.sent
            (closed,) = (each for each in events if isinstance(each, ev.SessionClosed))
            assert closed.reason == outcome.reason
        elif isinstance(outcome, Ignored):
            assert (sent, counted, events) == (b"", {"spp-ignored": outcome.times}, [])
        elif isinstance(outcome, NotOffered):
            assert sent == b""
            assert counted[outcome.reason] == outcome.times
            assert [each.reason for each in refused] == [outcome.reason] * min(outcome.times, JOURNALED)
            assert all(len(each.service or "") <= 255 for each in refused)
        elif isinstance(outcome, Sent):
            assert (sent, refused) == (outcome.data, [])
        else:
            assert (sent, counted, events) == (b"", {}, [])
            assert len(intruder.connection.protocol.input.reader) <= len(row.build())  # type: ignore[arg-type]

    def expect_undisturbed(self) -> None:
        """The others were sent nothing, and are served as before."""
        assert self.watcher.connection.take() == self.onlooker.connection.take() == b""
        self.member.send({"type": "a/b"}, STATE)
        assert self.watcher.connection.take() == SNAPSHOT
        assert self.onlooker.connection.take() == b""


class Intruder:
    """A client that sends something hostile."""

    def __init__(self, network: Network) -> None:
        self.connection = network.connect("spp")

    def send_pieces(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            if self.connection.is_open:
                self.connection.send_bytes(piece)


NAMED = [(row.name, row) for row in ROWS]


def test_the_table_has_enough_rows_and_no_name_twice() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) >= 60


def test_the_outcome_is_as_documented_and_nobody_else_notices() -> None:
    check_each(NAMED, expect_outcome)


def expect_outcome(row: Row) -> None:
    scene = Scene(row.guarded)
    intruder = scene.intruder()
    scene.attack(intruder, row, [row.build()])
    scene.expect_undisturbed()


# Floods.


@each_row(
    ("guarded", "data", "kind", "each"),
    [
        (False, lambda number: spp.subscribe("never"), ev.SubscriptionRefused, 1),
        (True, lambda number: spp.subscribe(SERVICE), ev.SubscriptionRefused, 1),
        # Not always the same user: guesses at one are delayed.
        (True, lambda number: spp.authenticate(f"{USER}{number}", "guess") * 3, ev.AuthFailed, 3),
    ],
    ids=["not offered", "not authenticated", "guesses"],
)
def test_a_flood_does_not_fill_the_journal(
    guarded: bool, data: Callable[[int], bytes], kind: type[ev.Event], each: int
) -> None:
    scene = Scene(guarded)
    network = scene.network
    for number in range(400):
        network.connect("spp", "127.0.0.1").send_bytes(data(number))
    assert len(network.events(kind)) == JOURNALED
    network.reactor.advance(60)
    network.connect("spp", "127.0.0.1").send_bytes(data(401))
    suppressed = sum(event.suppressed or 0 for event in network.events(kind))
    assert len(network.events(kind)) + suppressed == 401 * each
    scene.expect_undisturbed()


def test_one_address_that_floods_does_not_silence_another() -> None:
    scene = Scene()
    scene.network.connect("spp").send_bytes(spp.subscribe("never") * 1000)
    scene.network.connect("spp", "10.0.0.99").send_bytes(spp.subscribe("never"))
    assert scene.network.events(ev.SubscriptionRefused)[-1].peer == "10.0.0.99:4711"


@each_row("policy", ["disconnect", "coalesce"])
def test_snapshots_for_one_who_reads_none_are_bounded(policy: str) -> None:
    scene = Scene(max_outbound=1000, slow_spp=policy)
    intruder = scene.intruder()
    link = intruder.connection.protocol.link
    link.pauseProducing()
    intruder.connection.send_bytes(spp.subscribe(SERVICE) * 10_000)
    assert link._backlog.size <= 1000 + len(SNAPSHOT)
    scene.network.reactor.advance(0)
    assert intruder.connection.is_open == (policy == "coalesce")
    scene.expect_undisturbed()


def test_offers_for_one_who_reads_none_are_bounded() -> None:
    scene = Scene(max_outbound=1000, slow_spp="coalesce")
    intruder = scene.intruder()
    intruder.connection.protocol.link.pauseProducing()
    for _ in range(100):
        for event in ("register", "unregister"):
            scene.member.send({"event": f"services/{event}", "name": "lamp"})
    scene.network.reactor.advance(0)
    assert not intruder.connection.is_open
    assert scene.network.events(ev.SessionClosed)[-1].reason == "slow-consumer"


def test_those_who_are_not_accepted_see_nothing_of_what_goes_on() -> None:
    scene = Scene(guarded=True)
    intruder = scene.intruder()
    scene.member.send({"event": "services/register", "name": "lamp"})
    scene.member.send({"type": "a/b", "sender": SERVICE}, b"secret")
    scene.member.send({"event": "services/unregister", "name": "lamp"})
    assert intruder.connection.take() == b""
    intruder.connection.send_bytes(spp.authenticate(USER, SECRET))
    assert intruder.connection.take() == ACCEPTED + OFFER
