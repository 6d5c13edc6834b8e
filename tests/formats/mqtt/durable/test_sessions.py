"""Durable sessions: in the registry, in the journal, and for their clients."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.bus.services.wills import GRACE
from bussrv.formats.mqtt.durable.sessions import MOST_INCOMING
from bussrv.formats.mqtt.joining import DROPPED
from bussrv.formats.mqtt.link import MqttReceiver as Receiver
from bussrv.policy.logins.users import SecretHash
from bussrv.registry.state.session import Session
from bussrv.spool import rounds
from bussrv.turns.slices import Work
from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import VERSION_3_1_1, VERSION_5, Properties, Publish, WantedFilter, Will
from bussrv.wire.mqtt.published import Format
from bussrv.wire.mqtt.reasons import ReasonCode
from tests.formats.mqtt.peer import VERSIONS, MqttPeer
from tests.formats.network import Network
from tests.journal.support import fold
from tests.logins import asking
from tests.tables import each_row

HOUR = 3600

SECRET = SecretHash(b"salt", bytes(32), 2, 1, 1).made_of(b"secret")


def durable(network: Network, client_id: str = "ann", version: int = VERSION_5, **asked: Any) -> MqttPeer:
    """A client with a session that is there for an hour, or was there before."""
    about = {"session_expiry_interval": HOUR, **asked.pop("properties", {})} if version == VERSION_5 else {}
    return MqttPeer(network, client_id, version, clean_start=False, properties=Properties(**about), **asked)


def away(network: Network, *filters: str | WantedFilter, **asked: Any) -> str:
    """A client subscribes, and its connection is lost. :returns: its session."""
    peer = durable(network, **asked)
    if filters:
        peer.subscribe(*[WantedFilter(each, 1) if isinstance(each, str) else each for each in filters])
    peer.connection.close()
    return peer.session_id


def session(network: Network, session_id: str) -> Session | None:
    return network.registry.state.sessions.get(session_id)


def closed(network: Network) -> list[str | None]:
    return [each.reason for each in network.events(ev.SessionClosed)]


def kept(network: Network) -> tuple[str, ...]:
    """The owners in the spool, when everything is told."""
    for _ in range(5):
        network.reactor.advance(0)
    found: tuple[str, ...] = network.bus.spool.store.owners("", 100)  # type: ignore[attr-defined]
    return found


def present(peer: MqttPeer) -> bool:
    assert isinstance(peer.answer, packets.Connack)
    assert peer.answer.code == 0
    return peer.answer.session_present


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_outlives_connections_and_the_server(version: int) -> None:
    network = Network()
    ann = durable(network, version=version)
    assert not present(ann)
    ann.subscribe(WantedFilter("tv/#", 1))
    ann.publish("door", b"open", 1)
    first, found = ann.session_id, session(network, ann.session_id)
    assert found is not None
    assert (found.name, found.is_durable, found.is_away) == ("ann", True, False)
    ann.connection.close()
    found = session(network, first)
    assert found is not None
    assert found.is_away
    assert (network.registry.state.provided_by(first), network.registry.state.subscribed_by(first)) == (set(), {"tv/#"})
    (left,) = network.events(ev.SessionLeft)
    assert (left.reason, left.session) == ("client-closed", first)
    again = durable(network, version=version, host="10.0.0.2")
    assert (present(again), again.session_id) == (True, first)
    found = session(network, first)
    assert found is not None
    assert (found.is_away, found.peer) == (False, "10.0.0.2:4711")
    assert closed(network) == ["joined-session"] * 2
    later = network.restarted()
    found = session(later, first)
    assert found is not None
    assert found.is_away
    assert [each.reason for each in later.events(ev.SessionLeft)] == ["client-closed", "server-crashed"]
    last = durable(later, version=version)
    assert (present(last), last.session_id) == (True, first)
    MqttPeer(later, "bob").publish("tv/1", b"on", 1)
    assert last.messages() == [("tv/1", b"on")]
    assert fold(later.journal.records) == later.registry.state


@pytest.mark.parametrize("is_durable", [False, True])
def test_only_the_packet_that_it_awaits_confirms_a_message(is_durable: bool) -> None:
    network = Network()
    if is_durable:
        ann = durable(network, properties={"receive_maximum": 1})
    else:
        ann = MqttPeer(network, properties=Properties(receive_maximum=1))
    ann.subscribe(WantedFilter("tv", 2))
    bob = MqttPeer(network, "bob")
    for number, qos in enumerate((1, 2, 1)):
        bob.send(Publish("tv", b"%d" % number, qos, id=number + 1))
    steps: tuple[tuple[Any, tuple[Any, ...]], ...] = (
        (packets.Puback, (packets.Pubcomp,)),
        (packets.Pubrec, (packets.Puback, packets.Pubcomp)),
        (packets.Pubcomp, (packets.Puback,)),
        (packets.Puback, (packets.Pubcomp,)),
    )
    for awaited, others in steps:
        (last,) = ann.received()
        assert isinstance(last, Publish | packets.Pubrel)
        for each in others:
            ann.send(each(last.id))
            assert ann.received() == []
        ann.send(awaited(last.id))
        network.reactor.advance(0)
    assert ann.received() == []


@pytest.mark.parametrize("crashes", [False, True])
def test_messages_wait_those_of_qos_0_do_not(crashes: bool) -> None:
    network = Network()
    away(network, "tv", "old")
    bob = MqttPeer(network, "bob")
    for qos in (0, 1, 2):
        bob.publish("tv", b"%d" % qos, qos)
    bob.publish("old", b"news", 1, properties=Properties(message_expiry_interval=5))
    network.reactor.advance(10)
    network = network.restarted() if crashes else network
    ann = durable(network, version=VERSION_3_1_1)
    assert [each.payload for each in ann.rest if isinstance(each, Publish)] == [b"1", b"2"]
    assert network.bus.counters["internal-error"] == 0


def test_it_is_known_how_many_messages_wait_for_a_client() -> None:
    network = Network()
    session = away(network, "tv")
    bob, queued = MqttPeer(network, "bob"), network.bus.queued[session]
    counts = [queued()]
    for qos in (0, 1, 1):
        bob.publish("tv", b"on", qos)
        counts.append(queued())
    ann = durable(network)
    ann.send(packets.Puback(next(each.id for each in ann.rest if isinstance(each, Publish))))
    ann.received()
    assert [*counts, queued()] == [0, 0, 1, 2, 1]


def test_a_client_is_told_what_was_dropped() -> None:
    network = Network(max_spool_entries=4)
    away(network, "tv")
    bob = MqttPeer(network, "bob")
    for number in range(5):
        bob.publish("tv", b"%d" % number, 1)
    ann = durable(network)
    assert isinstance(ann.answer, packets.Connack)
    assert ann.answer.properties.user_properties == ((DROPPED, "2"),)
    assert [each.payload for each in ann.rest if isinstance(each, Publish)] == [b"2", b"3", b"4"]
    ann.connection.close()
    again = durable(network)
    assert isinstance(again.answer, packets.Connack)
    assert again.answer.properties.user_properties == ()
    assert [each.dup for each in again.rest if isinstance(each, Publish)] == [True] * 3


def test_it_ends_when_it_is_time_also_after_a_restart() -> None:
    network = Network(mqtt_session_expiry=1000)
    early = durable(network, "early", properties={"session_expiry_interval": 10})
    early.send(packets.Disconnect())
    session_id = away(network, "tv")
    network.reactor.advance(11)
    assert closed(network)[-1] == "session-expired"
    assert kept(network) == (f"mqtt {session_id}",)
    later = network.restarted()
    later.reactor.advance(900)
    assert session(later, session_id) is not None
    later.reactor.advance(100)
    later.reactor.advance(0)
    assert (session(later, session_id), kept(later)) == (None, ())
    assert not present(durable(later))


@each_row(
    ("asked", "left", "outcome"),
    [
        ({"session_expiry_interval": 10}, 0, "client-closed"),
        ({"session_expiry_interval": 10}, 20, None),
        ({"session_expiry_interval": 0}, 20, "protocol-error"),
        ({}, 20, "protocol-error"),
    ],
)
def test_a_client_may_change_its_mind_when_it_goes(asked: dict[str, int], left: int, outcome: str | None) -> None:
    network = Network()
    peer = MqttPeer(network, properties=Properties(**asked))
    peer.send(packets.Disconnect(0, Properties(session_expiry_interval=left)))
    assert closed(network)[-1] == (outcome or "joined-session")
    network.reactor.advance(15)
    assert (session(network, peer.session_id) is not None) == (outcome is None)
    network.reactor.advance(10)
    network.reactor.advance(0)
    assert (session(network, peer.session_id), kept(network)) == (None, ())


def test_the_server_sets_the_most_that_a_session_waits() -> None:
    network = Network(mqtt_session_expiry=60)
    ann = durable(network)
    assert isinstance(ann.answer, packets.Connack)
    assert ann.answer.properties.session_expiry_interval == 60


def test_a_clean_start_replaces_it() -> None:
    network = Network()
    session_id = away(network, "tv")
    MqttPeer(network, "bob").publish("tv", b"on", 1)
    ann = MqttPeer(network, "ann")
    assert not present(ann)
    assert (session(network, session_id), ann.rest) == (None, [])
    assert closed(network)[-1] == "session-replaced"
    assert kept(network) == ()


def test_a_connection_takes_a_session_over() -> None:
    network = Network()
    first = durable(network)
    first.subscribe(WantedFilter("tv", 1))
    second = durable(network, version=VERSION_3_1_1)
    assert (present(second), second.session_id) == (True, first.session_id)
    assert (first.received(), first.is_open) == ([packets.Disconnect(ReasonCode.SESSION_TAKEN_OVER)], False)
    assert [each.reason for each in network.events(ev.SessionLeft)] == ["session-taken-over"]
    MqttPeer(network, "bob").publish("tv", b"on", 1)
    assert second.messages() == [("tv", b"on")]


def test_thousands_may_want_the_same_id_at_once() -> None:
    network = Network()
    network.bus.spool.delay = 1.0  # type: ignore[attr-defined]
    peers = [durable(network) for _ in range(1000)]
    network.reactor.pump([1] * 10)
    assert {peer.answer for peer in peers} == {None}
    assert [peer.is_open for peer in peers] == [False] * 999 + [True]
    (answer,) = peers[-1].received()
    assert isinstance(answer, packets.Connack)
    assert answer.code == 0


def test_it_belongs_to_its_user() -> None:
    network = asking({"ann": SECRET, "bob": SECRET})
    session_id = away(network, "tv", username="ann", password=b"secret")
    other = durable(network, username="bob", password=b"secret")
    assert isinstance(other.answer, packets.Connack)
    assert other.answer.code == ReasonCode.CLIENT_ID_NOT_VALID
    own = durable(network, username="ann", password=b"secret")
    assert (present(own), own.session_id) == (True, session_id)


@each_row("is_durable", [False, True])
def test_who_is_lost_while_it_waits_for_its_id_lets_it_go(is_durable: bool) -> None:
    network = asking({"ann": SECRET})
    connect = partial(durable if is_durable else MqttPeer, network, username="ann", password=b"secret")
    first, slices, ending = connect(), network.bus.slices, list[Work]()
    for number in range(200):
        first.publish(f"tv/{number}")

    def hold(work: Work, address: str = "") -> None:
        """Hold back the end of its services."""
        if first.connection.protocol.has_ended:
            ending.append(work)
        else:
            do(work, address)

    do, slices.do = slices.do, hold  # type: ignore[method-assign]
    lost = connect()
    slices.do = do  # type: ignore[method-assign]
    lost.connection.close()
    for work in ending:
        slices.do(work)
    network.reactor.advance(0)
    assert lost.answer is None
    answer = connect().answer
    assert isinstance(answer, packets.Connack)
    assert answer.code == 0


@each_row("limits", [{"mqtt_max_durable": 1}, {"mqtt_max_durable_per_address": 1}])
def test_there_are_not_too_many(limits: dict[str, int]) -> None:
    network = Network(**limits)
    away(network)
    second = durable(network, "bob")
    assert second.answer == packets.Connack(ReasonCode.QUOTA_EXCEEDED)
    assert network.bus.counters["too-many-durable-sessions"] == 1
    assert present(durable(network)), "its own client may come back"


@pytest.mark.dear
@each_row("begins_anew", [False, True])
def test_who_only_comes_and_goes_fills_no_journal(begins_anew: bool) -> None:
    network = Network(journal_session_rate=1000, journal_session_burst=10_000)
    session_id = away(network)
    sizes, answers = [], []
    for number in range(400):
        peer = durable(network, f"ann{number}" if begins_anew else "ann")
        answers.append(peer.answer)
        peer.connection.close()
        sizes.append(network.journal.bytes_accepted)
    # What may be written at once is written; then it takes its time.
    assert sizes[-1] == sizes[200] < 60_000
    assert answers[0] is not None
    assert answers[-1] is None
    for _ in range(100):
        network.reactor.advance(1)
    assert durable(network).session_id == session_id


def test_those_that_are_away_keep_no_client_out() -> None:
    network = Network(max_sessions_per_address=2)
    for number in range(4):
        away(network, client_id=str(number))
    assert all(present(durable(network, str(number))) for number in range(1))
    assert MqttPeer(network, "bob").is_open


@pytest.mark.parametrize("is_away", [False, True])
def test_an_operator_ends_it_for_good(is_away: bool) -> None:
    network = Network()
    peer = durable(network)
    if is_away:
        peer.connection.close()
    link = network.bus.link_of(peer.session_id)
    assert link is not None
    link.close("closed-by-operator")
    assert closed(network)[-1] == "closed-by-operator"
    peer.received()
    assert (session(network, peer.session_id), kept(network), peer.is_open) == (None, (), False)


def test_it_may_end_while_its_client_comes_back() -> None:
    network = Network()
    session_id = away(network)
    link = network.bus.link_of(session_id)
    assert link is not None
    network.bus.spool.delay = 1.0  # type: ignore[attr-defined]
    will = Will("gone", b"ann")
    ann = durable(network, will=will)
    for _ in range(2):
        network.reactor.advance(1)
    assert network.events(ev.SessionResumed), "it waits for its will to be kept"
    assert ann.received() == []
    link.close("closed-by-operator")
    for _ in range(3):
        network.reactor.advance(1)
    assert [each.code for each in ann.received()] == [ReasonCode.UNSPECIFIED_ERROR]  # type: ignore[attr-defined]
    assert not ann.is_open
    assert [each for each in network.registry.state.sessions.values() if each.protocol == "mqtt"] == []


def test_a_full_spool_lets_nobody_in_who_wants_more() -> None:
    network = Network()
    network.bus.spool.fails = True  # type: ignore[attr-defined]
    assert durable(network).answer == packets.Connack(ReasonCode.SERVER_UNAVAILABLE)
    assert MqttPeer(network, "bob").is_open
    assert [each for each in network.registry.state.sessions.values() if each.is_durable] == []


@pytest.mark.parametrize("is_away", [False, True])
def test_a_damaged_spool_is_begun_anew(is_away: bool) -> None:
    network = Network()
    ann, bob = durable(network), MqttPeer(network, "bob")
    ann.subscribe(WantedFilter("tv", 1))
    for number in range(5):
        bob.publish("tv", b"%d" % number, 1)
    assert len(ann.messages()) == 5
    if is_away:
        ann.connection.close()
    network.bus.spool.damage()  # type: ignore[attr-defined]
    assert [each.code for each in bob.publish("tv", b"new", 1)] == [0]  # type: ignore[attr-defined]
    if is_away:
        assert [each.payload for each in durable(network).rest if isinstance(each, Publish)] == [b"new"]
    else:
        assert ann.messages() == [("tv", b"new")]


def test_a_shared_subscription_prefers_those_who_are_there() -> None:
    network = Network()
    away(network, "$share/us/tv")
    bob, eve = MqttPeer(network, "bob"), MqttPeer(network, "eve")
    bob.subscribe(WantedFilter("$share/us/tv", 1))
    for number in range(2):
        eve.publish("tv", b"%d" % number, 1)
    assert [payload for _, payload in bob.messages()] == [b"0", b"1"]
    bob.connection.close()
    eve.publish("tv", b"2", 1)
    assert [each.payload for each in durable(network).rest if isinstance(each, Publish)] == [b"2"]


# A spool that has much to do.


def test_who_has_nothing_in_the_spool_is_not_refused() -> None:
    network = Network()
    away(network, "tv")
    bob, eve = MqttPeer(network, "bob"), MqttPeer(network, "eve")
    eve.publish("quiet", b"1", 1)
    spool = network.bus.spool
    spool.delay = 1.0  # type: ignore[attr-defined]
    assert bob.publish("tv", b"on", 1) == []
    spool.fails = True  # type: ignore[attr-defined]
    assert eve.publish("quiet", b"2", 1) == [packets.Puback(7)]
    network.reactor.advance(1)
    assert bob.received() == [packets.Puback(7)]
    bob.publish("tv", b"off", 1)
    network.reactor.advance(1)
    assert bob.received() == [packets.Puback(7, ReasonCode.UNSPECIFIED_ERROR)]
    assert eve.publish("quiet", b"3", 1) == [packets.Puback(7)]


def test_a_failing_spool_leaves_no_more_begun_than_may_be() -> None:
    network = Network()
    bob = durable(network, "bob")
    for number in range(1, MOST_INCOMING + 1):
        bob.send(Publish("tv", b"on", 2, id=number))
    assert len(bob.received()) == MOST_INCOMING
    spool = network.bus.spool
    spool.delay, spool.fails = 1.0, True  # type: ignore[attr-defined]
    bob.send(packets.Pubrel(1))
    network.reactor.advance(0)
    spool.fails = False  # type: ignore[attr-defined]
    bob.send(Publish("tv", b"on", 2, id=100))
    network.reactor.pump([0, 1, 1])
    assert bob.received() == [packets.Pubrec(100)]
    spool.delay = 0.0  # type: ignore[attr-defined]
    bob.send(packets.Pubrel(1))
    assert bob.received() == [packets.Pubcomp(1, ReasonCode.PACKET_ID_NOT_FOUND)]


def test_a_message_received_while_the_spool_fails_goes_on() -> None:
    network = Network()
    ann = durable(network)
    ann.subscribe(WantedFilter("tv", 2))
    MqttPeer(network, "bob").publish("tv", b"on", 2)
    (message,) = ann.received()
    assert isinstance(message, Publish)
    network.bus.spool.fails = True  # type: ignore[attr-defined]
    ann.send(packets.Pubrec(message.id))
    network.reactor.pump([1] * 3)
    assert ann.received() == []
    network.bus.spool.fails = False  # type: ignore[attr-defined]
    network.reactor.advance(1)
    assert ann.received() == [packets.Pubrel(message.id)]


def test_a_bug_in_one_queue_keeps_nobody_waiting() -> None:
    network = Network()
    ann = durable(network)
    ann.subscribe(WantedFilter("tv", 1))
    found = network.factory("mqtt").clients.durable.of("ann")  # type: ignore[attr-defined]
    found.link.queue.connect(Receiver(Format(VERSION_5, 1000), 10, [].__getitem__))
    bob = MqttPeer(network, "bob")
    for _ in range(2):
        assert bob.publish("tv", b"on", 1) == [packets.Puback(7)]
    assert network.bus.counters["internal-error"] >= 1


def test_publishers_wait_while_the_spool_has_much_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "MOST_UNSETTLED", 1500)
    network = Network()
    for number in range(2):
        away(network, "tv", client_id=str(number))
    bob = MqttPeer(network, "bob")
    bob.publish("tv", b"first", 1)
    network.bus.spool.delay = 1.0  # type: ignore[attr-defined]
    for _ in range(4):
        bob.publish("tv", bytes(500), 1)
    answered = []
    for _ in range(4):
        network.reactor.advance(1)
        answered.append(len(bob.received()))
    assert answered == [3, 1, 0, 0]


# Wills.


def willed(network: Network, client_id: str = "ann", *, delay: int = 0, expiry: int = HOUR) -> MqttPeer:
    will = Will("gone", client_id.encode(), 1, True, Properties(will_delay_interval=delay))
    about = Properties(session_expiry_interval=expiry)
    return MqttPeer(network, client_id, clean_start=False, will=will, properties=about)


def gone(network: Network) -> list[bytes]:
    """The wills that were published."""
    found = network.bus.retained.get("gone")
    return [] if found is None else [found.payload]


@each_row(("delay", "expiry"), [(10, HOUR), (HOUR, 10)])
def test_thousands_are_due_in_slices(delay: int, expiry: int) -> None:
    """Wills, or the ends of sessions. A client may come back before its slice."""
    network = Network()
    for each in ("ann", "bob"):
        willed(network, each, delay=delay, expiry=expiry).connection.close()
    slices, left = network.bus.slices, list[Work]()
    do, slices.do = slices.do, left.append  # type: ignore[method-assign, assignment]
    network.reactor.advance(10)
    slices.do = do  # type: ignore[method-assign]
    assert (len(left), gone(network), "session-expired" in closed(network)) == (2, [], False)
    ann = durable(network)
    assert [work(0) for work in left] == [False, False]
    assert (gone(network), closed(network).count("session-expired")) == ([b"bob"], int(expiry == 10))
    assert session(network, ann.session_id) is not None


@each_row(
    ("delay", "expiry", "seconds", "wills"),
    [
        (0, HOUR, 0, [b"ann"]),
        (10, 0, 0, [b"ann"]),
        (10, HOUR, 9, []),
        (10, HOUR, 11, [b"ann"]),
        (HOUR, 10, 9, []),
        (HOUR, 10, 11, [b"ann"]),
    ],
)
def test_a_will_waits(delay: int, expiry: int, seconds: int, wills: list[bytes]) -> None:
    network = Network()
    willed(network, delay=delay, expiry=expiry).connection.close()
    network.reactor.advance(seconds)
    assert gone(network) == wills
    network.reactor.advance(0)
    assert ("mqtt-will ann" in kept(network)) == (wills == [])


@pytest.mark.parametrize("leaves", ["comes back", "says goodbye"])
def test_no_will_of_a_client_that(leaves: str) -> None:
    network = Network()
    peer = willed(network, delay=10)
    if leaves == "comes back":
        peer.connection.close()
        durable(network)
    else:
        peer.send(packets.Disconnect())
    network.reactor.advance(20)
    assert (gone(network), "mqtt-will ann" in kept(network)) == ([], False)


@pytest.mark.parametrize("expiry", [0, HOUR])
@pytest.mark.parametrize("comes_back", [False, True])
@pytest.mark.parametrize("crashes", [False, True])
def test_after_a_restart_wills_wait_for_the_clients(expiry: int, comes_back: bool, crashes: bool) -> None:
    network = Network()
    peer = willed(network, expiry=expiry)
    if not crashes:
        peer.connection.protocol.end("server-stopped")
    network = network.restarted()
    network.reactor.advance(1)
    if comes_back:
        durable(network)
    network.reactor.advance(GRACE - 2)
    assert gone(network) == []
    network.reactor.advance(2)
    network.reactor.advance(0)
    assert gone(network) == ([] if comes_back else [b"ann"])
    assert "mqtt-will ann" not in kept(network)
    sessions = [each.name for each in network.registry.state.sessions.values()]
    assert sessions == (["ann"] if comes_back or expiry else [])
    assert fold(network.journal.records) == network.registry.state


def test_who_is_away_answers_no_requests() -> None:
    network = Network()
    ann = durable(network)
    ann.send(packets.Subscribe(1, (WantedFilter("tv", 1),), Properties(user_properties=(("provide", "1"),))))
    asker = network.member()

    def errors() -> list[str]:
        return [each["reason"] for each in asker.heads() if each["event"] == "error"]

    asker.send({"event": "services/request", "name": "tv", "id": "1", "type": "text/plain"}, b"?")
    assert [each.payload for each in ann.received() if isinstance(each, Publish)] == [b"?"]
    ann.connection.close()
    assert errors() == ["provider-gone"]
    asker.send({"event": "services/request", "name": "tv", "id": "2", "type": "text/plain"}, b"?")
    assert errors() == ["no-such-service"]
    durable(network).send(
        packets.Subscribe(1, (WantedFilter("tv", 1),), Properties(user_properties=(("provide", "1"),)))
    )
    asker.send({"event": "services/request", "name": "tv", "id": "3", "type": "text/plain"}, b"?")
    assert errors() == []


def test_messages_may_have_any_number_of_identifiers() -> None:
    network = Network()
    filters = ["/".join("x+"[place >> bit & 1] for bit in range(8)) for place in range(1, 200)]
    ann = durable(network)
    for number, each in enumerate(filters, start=1):
        ann.subscribe(WantedFilter(each, 1), packet_id=number, number=number)
    bob = MqttPeer(network, "bob")
    pairs = (("a", "b"),) * 128
    for payload in (b"one", b"two"):
        (answer,) = bob.publish("/".join("x" * 8), payload, 1, properties=Properties(user_properties=pairs))
        assert isinstance(answer, packets.Puback)
        sent = ann.connection.take()  # More properties than the server takes itself.
        assert (sent.endswith(payload), sent.count(b"\x26\0\1a\0\1b")) == (True, len(pairs))


def test_the_longest_lifetime_when_the_clock_is_set_back() -> None:
    network = Network()
    network.bus.spool.delay = 1.0  # type: ignore[attr-defined]
    longest = Properties(message_expiry_interval=0xFFFFFFFF)
    ann, bob = durable(network), MqttPeer(network, "bob")
    network.reactor.advance(1)
    network.reactor.advance(1)
    ann.subscribe(WantedFilter("tv", 1))
    bob.publish("tv", b"on", 1, properties=longest)
    bob.publish("tv", b"old", 1, properties=longest, retain=True)
    utc = network.bus.utc
    network.bus.utc = lambda: utc() - 2_000_000
    network.reactor.advance(1)
    got = [each for each in ann.received() if isinstance(each, Publish)]
    assert [(each.payload, each.properties.message_expiry_interval) for each in got] == [
        (b"on", 0xFFFFFFFF),
        (b"old", 0xFFFFFFFF),
    ]
    assert len(bob.received()) == 2
    network.reactor.rightNow -= 60
    retained = [each for each in MqttPeer(network, "eve").subscribe("tv") if isinstance(each, Publish)]
    assert [each.properties.message_expiry_interval for each in retained] == [0xFFFFFFFF]
