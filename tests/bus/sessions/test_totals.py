"""Totals of wire formats are the sums of their sessions, open and closed, and never get less."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bussrv import events as ev
from bussrv.bus.sessions.totals import Totals
from bussrv.journal.record import Stamped
from bussrv.values import Traffic
from tests.size import sized

COUNTS = ("objects_in", "objects_out", "bytes_in", "bytes_out")
NUMBERS = st.integers(0, 1 << 40)


class TotalsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.totals = Totals()
        self.sessions: list[tuple[str, str, Traffic]] = []
        self.expected: dict[str, Counter[str]] = {}
        self.opened: Counter[str] = Counter()
        self.away: set[str] = set()

    @rule(protocol=st.sampled_from(["objects", "spp"]), is_away=st.booleans())
    def open(self, protocol: str, is_away: bool) -> None:
        traffic = Traffic()
        name = f"s{sum(self.opened.values())}"
        self.totals.opened(protocol, name, traffic, is_away=is_away)
        if is_away:
            self.away.add(name)
        self.sessions.append((protocol, name, traffic))
        self.opened[protocol] += 1

    @rule(data=st.data(), name=st.sampled_from(COUNTS), number=NUMBERS)
    def count(self, data: st.DataObject, name: str, number: int) -> None:
        if self.sessions:
            protocol, _, traffic = data.draw(st.sampled_from(self.sessions))
            setattr(traffic, name, getattr(traffic, name) + number)
            self.expected.setdefault(protocol, Counter())[name] += number

    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        if self.sessions:
            index = data.draw(st.integers(0, len(self.sessions) - 1))
            protocol, name, _ = self.sessions.pop(index)
            self.totals.closed(protocol, name)
            self.totals.closed(protocol, name)

    @rule(data=st.data(), event=st.sampled_from([ev.SessionLeft, ev.SessionResumed]))
    def leave_or_come_back(self, data: st.DataObject, event: type[ev.Event]) -> None:
        protocol, name, _ = data.draw(st.sampled_from([*self.sessions, ("objects", "nobody", None)]))
        own = {"until": 1} if event is ev.SessionLeft else {"expiry": 1}
        self.totals.registry_changed(Stamped(0, 0, event(protocol=protocol, session=name, **own)))
        (self.away.add if event is ev.SessionLeft and name != "nobody" else self.away.discard)(name)

    @rule()
    def unknown_sessions_count_nothing(self) -> None:
        self.totals.closed("business", "nobody")

    @invariant()
    def totals_are_sums(self) -> None:
        found = self.totals.by_format()
        assert {name: each.opened for name, each in found.items()} == dict(self.opened)
        for name, total in found.items():
            mine = [session in self.away for protocol, session, _ in self.sessions if protocol == name]
            assert (total.open, total.away, total.present) == (mine.count(False), mine.count(True), len(mine))
            for count in COUNTS:
                assert getattr(total.traffic, count) == self.expected.get(name, Counter())[count]


TestTotals = TotalsMachine.TestCase
TestTotals.settings = settings(max_examples=sized(60), stateful_step_count=30, deadline=None)


def test_states_that_a_slow_client_skips_make_no_total_less() -> None:
    totals, traffic = Totals(), Traffic(objects_out=10, bytes_out=100)
    totals.opened("spp", "s", traffic)
    assert totals.by_format()["spp"].traffic == Traffic(objects_out=10, bytes_out=100)
    traffic.objects_out, traffic.bytes_out = 8, 80
    assert totals.by_format()["spp"].traffic == Traffic(objects_out=10, bytes_out=100)
    traffic.objects_out, traffic.bytes_out = 11, 120
    totals.closed("spp", "s")
    assert totals.by_format()["spp"].traffic == Traffic(objects_out=11, bytes_out=120)
