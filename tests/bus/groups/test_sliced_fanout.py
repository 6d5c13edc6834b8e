"""What is for many groups is sent in slices: the same bytes in the same order, however slices and input alternate."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.stateful import initialize, rule
from hypothesis.strategies import integers, just, lists, one_of, sampled_from, tuples

from bussrv.bus.groups import fanout
from bussrv.formats.mqtt import publishing
from bussrv.spool.entries import AppendToAll, Change
from bussrv.turns.slices import Work
from bussrv.values import OCTET_STREAM, Publication
from bussrv.wire.mqtt.packets import (
    VERSION_5,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Pubrec,
    Subscribe,
    Unsubscribe,
    WantedFilter,
)
from bussrv.wire.mqtt.writer import encode
from tests.bus.groups.test_fanout import EXAMPLES, Fanout
from tests.bus.harness import BusHarness
from tests.formats.mqtt.durable.test_sessions import durable
from tests.formats.mqtt.peer import MqttPeer
from tests.formats.network import Network


class Steps:
    """Slices that the test does, with one group each."""

    def __init__(self) -> None:
        self._work: Work | None = None

    def do(self, work: Work, address: str = "") -> None:
        self._work = work

    def is_over(self, until: float) -> bool:
        return True

    def step(self) -> None:
        work, self._work = self._work, None
        if work is not None and work(0.0):
            self._work = work


class SlicedFanout(Fanout):
    """The same histories, with one group a slice, whatever comes between slices, and however few groups are many."""

    def __init__(self) -> None:
        super().__init__()
        self._many = fanout.MANY

    @initialize(many=integers(0, 2))
    def so_many_are_few(self, many: int) -> None:
        fanout.MANY = many

    def teardown(self) -> None:
        super().teardown()
        fanout.MANY = self._many

    @property
    def real(self) -> BusHarness:
        return self._real

    @real.setter
    def real(self, harness: BusHarness) -> None:
        self._real = harness
        self._slices = harness.bus._fanout._slices = Steps()

    @rule()
    def flush_begins(self) -> None:
        self.real.bus.flush()

    @rule()
    def a_slice_passes(self) -> None:
        self._slices.step()

    def flushes(self) -> None:
        self.real.bus.flush()
        while self.real.bus.is_behind:
            self._slices.step()
        super().flushes()


SlicedFanout.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=40)
TestSlicedFanout = SlicedFanout.TestCase


def sliced(monkeypatch: pytest.MonkeyPatch) -> tuple[Network, Steps]:
    """A server that sends to one group a slice, if something is for more than two."""
    network, steps = Network(), Steps()
    monkeypatch.setattr(fanout, "MANY", 2)
    monkeypatch.setattr(network.bus._fanout, "_slices", steps)
    return network, steps


def subscribers(network: Network, qos: int, number: int = 6, kind: Any = MqttPeer) -> list[MqttPeer]:
    """Clients whose subscriptions differ."""
    peers: list[MqttPeer] = [kind(network, f"c{each}") for each in range(number)]
    for each, peer in enumerate(peers, 1):
        peer.subscribe(WantedFilter("tv/#", qos), number=each)
    return peers


def test_others_are_served_while_many_are_sent_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its publisher is not, until all of it is sent."""
    network, steps = sliced(monkeypatch)
    peers, publisher, other = subscribers(network, 0), MqttPeer(network, "pub"), MqttPeer(network, "other")
    publisher.publish("tv/0")
    while network.bus.is_behind:
        steps.step()
    assert [peer.messages() for peer in peers] == [[("tv/0", b"x")]] * len(peers)
    publisher.connection.send(b"".join(encode(Publish("tv/1", each), VERSION_5) for each in (b"2", b"3")))
    for number in range(1, len(peers) + 2):
        steps.step()
        waiting = [not peer.connection.transport.value() for peer in peers]
        assert (sum(waiting), network.bus.is_behind) == (max(0, len(peers) - number), number <= len(peers))
        publisher.send(Pingreq())
        other.send(Pingreq())
        assert other.received() == [Pingresp()]
        assert bool(publisher.received()) is not network.bus.is_behind
    for number, peer in enumerate(peers, 1):
        messages = [each for each in peer.received() if isinstance(each, Publish)]
        assert [each.payload for each in messages] == [b"2", b"3"]
        assert {each.properties.subscription_identifiers for each in messages} == {(number,)}


def test_what_is_for_few_is_sent_before_the_rest_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its publisher does not wait either."""
    network, steps = sliced(monkeypatch)
    peers, publisher = subscribers(network, 0), MqttPeer(network, "pub")
    other, watcher = MqttPeer(network, "other"), MqttPeer(network, "watcher")
    watcher.subscribe(WantedFilter("door", 0))
    for number, peer in enumerate(peers):
        peer.subscribe(WantedFilter(f"own/{number}", 0), number=number + 1)
    publisher.publish("tv/1")
    assert network.bus.is_behind
    other.publish("door", b"1")
    other.publish("door", b"2")
    assert watcher.messages() == [("door", b"1"), ("door", b"2")]
    steps.step()
    (served,) = [number for number, peer in enumerate(peers) if peer.connection.transport.value()]
    other.publish(f"own/{served}")
    assert peers[served].messages() == [("tv/1", b"x"), (f"own/{served}", b"x")]
    other.send(Pingreq())
    assert other.received() == [Pingresp()]
    other.publish("tv/2")
    other.send(Pingreq())
    assert other.received() == []
    while network.bus.is_behind:
        steps.step()
    assert other.received() == [Pingresp()]
    got = [peer.messages() for peer in peers]
    assert got.pop(served) == [("tv/2", b"x")]
    assert got == [[("tv/1", b"x"), ("tv/2", b"x")]] * len(got)


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("together", [1, publishing.MOST_TOGETHER])
def test_a_message_is_acknowledged_when_all_queues_have_it(
    monkeypatch: pytest.MonkeyPatch, qos: int, together: int
) -> None:
    network, steps = sliced(monkeypatch)
    monkeypatch.setattr(publishing, "MOST_TOGETHER", together)
    peers = subscribers(network, 2, kind=durable)
    for peer in peers:
        peer.connection.close()
    publisher = durable(network, "pub")
    publisher.publish("tv/1")
    for number in range(1, 4):
        publisher.send(Publish("tv/1", b"x", qos, id=number))
    acknowledged: list[Packet] = []
    for _ in range(5 * len(peers)):
        network.reactor.advance(0)
        acknowledged += publisher.received()
        assert min(network.bus.queued[peer.session_id]() for peer in peers) >= len(acknowledged)
        steps.step()
    kind = Puback if qos == 1 else Pubrec
    assert acknowledged == [kind(number) for number in range(1, 4)]


def test_equal_messages_for_many_groups_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So they are one entry of the spool, though the subscriptions of the sessions differ."""
    network, steps = sliced(monkeypatch)
    monkeypatch.setattr(steps, "is_over", lambda until: False)
    peers = [durable(network, f"c{each}") for each in range(20)]
    for each, peer in enumerate(peers):
        peer.subscribe(WantedFilter("tv", 1), WantedFilter(f"own/{each}", 1))
        peer.connection.close()
    changes: list[Change] = []
    spool = network.bus.spool
    append = spool.append_changes
    monkeypatch.setattr(spool, "append_changes", lambda some, waiter: (changes.extend(some), append(some, waiter)))
    MqttPeer(network, "pub").publish("tv", b"x", 1)
    while network.bus.is_behind:
        steps.step()
    network.reactor.advance(0)
    (change,) = [each for each in changes if isinstance(each, AppendToAll)]
    assert (len(change.owners), len({id(each) for each in change.heads})) == (len(peers), 1)


def test_whoever_cannot_be_sent_anything_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    network, steps = sliced(monkeypatch)
    peers = subscribers(network, 0)

    def fails(bundle: object) -> None:
        raise ValueError("a bug")

    with monkeypatch.context() as broken:
        broken.setattr(peers[2].connection.protocol.link, "send", fails)
        MqttPeer(network, "pub").publish("tv/1")
        while network.bus.is_behind:
            steps.step()
    network.reactor.advance(0)
    assert [len(peer.messages()) for peer in peers] == [1, 1, 0, 1, 1, 1]
    assert [peer.is_open for peer in peers] == [True, True, False, True, True, True]
    assert network.bus.counters["internal-error"] == 1


GROUPS, SHARERS = 3, 2


def change(peer: MqttPeer, what: str, wanted: str) -> None:
    if what == "shares":
        peer.send(Subscribe(1, (WantedFilter(wanted),)))
    elif what == "leaves":
        peer.send(Unsubscribe(1, (wanted,)))
    else:
        peer.connection.close()


changes = one_of(
    tuples(just("publish"), integers(1, 3)),
    tuples(just("slice"), integers(1, 3)),
    tuples(sampled_from(["shares", "shares", "leaves", "goes"]), integers(0, GROUPS * SHARERS - 1)),
)


@given(lists(changes, max_size=25))
def test_many_shared_subscriptions_choose_in_slices(steps: list[tuple[str, int]]) -> None:
    """Each publication goes to one session of each, in order, whoever comes and goes meanwhile."""
    network, slices = Network(), Steps()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fanout, "MANY", 1)
        patched.setattr(network.bus._fanout, "_slices", slices)
        peers = [MqttPeer(network, f"c{each}") for each in range(GROUPS * SHARERS)]
        publisher = MqttPeer(network, "pub").session_id
        sharing: list[list[MqttPeer]] = [[] for _ in range(GROUPS)]
        expected: list[list[bytes]] = [[] for _ in range(GROUPS)]
        count = 0
        for what, number in [*(("shares", each) for each in range(GROUPS)), *steps]:
            peer, group = peers[number], number % GROUPS
            if what == "publish":
                payloads = [b"%02d" % (count + each) for each in range(number)]
                count += number
                network.bus.publish_many(publisher, [Publication("tv", OCTET_STREAM, each) for each in payloads])
                network.bus.flush()
                for each in range(GROUPS):
                    expected[each] += payloads if sharing[each] else []
            elif what == "slice":
                for _ in range(number):
                    slices.step()
            elif peer.is_open and (what == "shares") is (peer not in sharing[group]):
                change(peer, what, f"$share/g{group}/tv")
                (sharing[group].append if what == "shares" else sharing[group].remove)(peer)
        while network.bus.is_behind:
            slices.step()
        for group in range(GROUPS):
            got = [[payload for _, payload in peer.messages()] for peer in peers[group::GROUPS]]
            assert all(each == sorted(each) for each in got)
            assert sorted(itertools.chain.from_iterable(got)) == expected[group]


def test_the_last_who_shares_is_sent_what_was_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    network, steps = sliced(monkeypatch)
    peers = [MqttPeer(network, f"c{each}") for each in range(6)]
    for number, peer in enumerate(peers):
        peer.subscribe(f"$share/g{number}/tv")
    MqttPeer(network, "pub").publish("tv")
    waiting = [peer for peer in peers if not peer.connection.transport.value()]
    assert network.bus.is_behind
    assert len(waiting) > 1
    for number, peer in enumerate(peers):
        change(peer, "leaves", f"$share/g{number}/tv")
    while network.bus.is_behind:
        steps.step()
    assert [peer.messages() for peer in peers] == [[("tv", b"x")]] * len(peers)
