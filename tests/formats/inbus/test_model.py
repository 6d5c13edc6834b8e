"""Inbus against a model of it: whatever subscribers, publishers, time, the network and restarts do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.formats.inbus.subscribers import RENEWALS_PER_LEASE, UNREACHABLE_GRACE
from bussrv.journal.record import Record
from bussrv.registry.state.state import RegistryState
from bussrv.wire import inbus
from tests.formats.network import Network
from tests.size import sized

LEASE = 400.0
SWEEP = 30.0
PORTS = (5001, 5002)
APP_KEYS = ("a", "b")
HOST = "10.0.0.2"

ports, app_keys = st.sampled_from(PORTS), st.sampled_from(APP_KEYS)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("subscribe"), ports, app_keys),
        st.tuples(st.just("unsubscribe"), ports, app_keys),
        st.tuples(st.just("unreachable"), ports),
        st.tuples(st.just("advance"), st.sampled_from((5, 25, 65, 100, 300, 390))),
        st.tuples(st.just("publish"), app_keys),
        st.tuples(st.just("hold")),
        st.tuples(st.just("release")),
        st.tuples(st.just("restart")),
    ),
    min_size=6,
    max_size=40,
)


@dataclass
class Model:
    """What must and what may be subscribed.

    :ivar heard: the earliest and the latest moment at which each subscription may count as heard.
    :ivar unreachable: since when nobody listens at a port.
    :ivar released: when changes last became durable that had waited for the disk, even longer than their lease.
    """

    now: float = 0.0
    released: float = -SWEEP
    heard: dict[tuple[int, str], tuple[float, float]] = field(default_factory=dict)
    unreachable: dict[int, float] = field(default_factory=dict)

    def end(self, port: int, heard: float) -> float:
        return min(heard + LEASE, self.unreachable.get(port, heard + LEASE) + UNREACHABLE_GRACE)

    def must(self, app_key: str) -> set[int]:
        return {port for (port, key), (least, _) in self.heard.items() if key == app_key and self._lives(port, least)}

    def _lives(self, port: int, least: float) -> bool:
        return self.now < self.end(port, least)

    def may(self, app_key: str) -> set[int]:
        return {
            port
            for (port, key), (_, most) in self.heard.items()
            if key == app_key and self.now <= max(self.end(port, most), self.released) + SWEEP
        }

    def reached(self, port: int) -> None:
        """What may have gone already comes back only if it is subscribed to again."""
        for key, (least, most) in tuple(self.heard.items()):
            if key[0] == port and not self._lives(port, least):
                self.heard[key] = (least - LEASE, most)
        self.unreachable.pop(port, None)

    def restart(self) -> None:
        """Renewals that were too early for the journal are forgotten, and what the network said."""
        early = LEASE / RENEWALS_PER_LEASE
        self.heard = {key: (least - early, most) for key, (least, most) in self.heard.items()}
        for port in PORTS:
            self.reached(port)
        self.released = -SWEEP


class Run:
    """A server and the model of it."""

    def __init__(self) -> None:
        self.network = Network(inbus_lease=LEASE)
        self.past: list[Record] = []
        self.model = Model()
        self.boots = 0
        self.held = False

    def subscribe(self, port: int, app_key: str) -> None:
        self.network.udp.subscribe(app_key, port)
        self.model.reached(port)
        self.model.heard[port, app_key] = (self.model.now, self.model.now)

    def unsubscribe(self, port: int, app_key: str) -> None:
        self.network.udp.unsubscribe(app_key, port)
        self.model.heard.pop((port, app_key), None)

    def unreachable(self, port: int) -> None:
        self.network.udp.server._subscribers.not_reached((HOST, port), True)
        if any(port == known for known, _ in self.model.heard):
            self.model.unreachable.setdefault(port, self.model.now)

    def advance(self, seconds: int) -> None:
        self.network.reactor.pump([1] * seconds)
        self.model.now += seconds
        if self.held:
            return
        for app_key in APP_KEYS:
            for port in PORTS:
                if port not in self.model.may(app_key):
                    self.model.heard.pop((port, app_key), None)

    def publish(self, app_key: str) -> None:
        self.release()
        self.network.udp.publish(app_key, b"x")
        taken = self.network.udp.taken()
        got = [address[1] for _, address in taken]
        assert len(got) == len(set(got))
        assert self.model.must(app_key) <= set(got) <= self.model.may(app_key)
        assert all(inbus.decode(datagram).app_key == app_key for datagram, _ in taken)

    def hold(self) -> None:
        """Changes wait for the disk, until something is published."""
        if not self.held:
            self.network.journal.hold()
            self.held = True

    def release(self) -> None:
        if self.held:
            self.network.journal.release()
            self.held = False
            self.model.released = self.model.now

    def restart(self) -> None:
        self.release()
        self.network.udp.server.stop()
        state = RegistryState()
        state_before = self.network.registry.state
        for record in self.records():
            state.apply(record.event, record.time)
        assert state == state_before
        self.past = self.records()
        self.network = Network(state, self.network.reactor.seconds(), inbus_lease=LEASE)
        self.boots += 1
        self.network._boot = self.network.registry._boot = f"boot{self.boots}"
        self.model.restart()

    def records(self) -> list[Record]:
        return [*self.past, *self.network.journal.records]

    def check(self) -> None:
        """The ledger and the registry agree; nobody is in either who should have gone."""
        ledger = {entry.session: entry for entry in self.network.udp.server.ledger(1000)}
        state = self.network.registry.state
        persistent = {each.id: each for each in state.sessions.values() if each.persistent}
        assert {key: each.address for key, each in ledger.items()} == {k: each.peer for k, each in persistent.items()}
        for key, entry in ledger.items():
            assert entry.app_keys == tuple(sorted(str(name) for name in state.subscriptions[key]))
            assert entry.lease_left is not None
            assert 0 <= entry.lease_left <= LEASE


@settings(max_examples=sized(200))
@given(steps)
def test_who_is_given_what(sequence: list[tuple[Any, ...]]) -> None:
    run = Run()
    for name, *arguments in sequence:
        getattr(run, name)(*arguments)
        if not run.held:
            run.check()
    run.release()
    for app_key in APP_KEYS:
        run.publish(app_key)
    run.advance(int(LEASE + 2 * SWEEP))
    run.publish("a")
    run.advance(int(LEASE + 2 * SWEEP))
    assert run.network.udp.server.ledger(1000) == []
    assert run.network.registry.state.sessions == {}
