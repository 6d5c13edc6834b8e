"""The short way of changes of services does what the registry does step by step for all changes."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock

from bussrv.settings import Settings
from bussrv.values import Traffic
from tests.journal.support import FakeClock
from tests.registry.support import Bench, outcome_of
from tests.size import sized

SESSIONS = range(5)
GOOD, BAD = ["tv", "radio", "door"], ["bus/x", "a\nb", " padded", "", 7, None, ["tv"]]
SETTINGS = Settings(
    max_services=2,
    max_services_total=4,
    stranger_rate=1,
    journal_session_rate=300,
    journal_session_burst=8000,
    journal_total_rate=1000,
    journal_total_burst=20_000,
)

_sessions = st.sampled_from(SESSIONS)
_name = st.sampled_from([*5 * GOOD, *BAD])
_change = st.tuples(st.sampled_from(["register", "register", "unregister"]), _sessions, _name)
_others = st.one_of(
    st.tuples(st.just("lose"), _sessions, st.sampled_from(GOOD)),
    st.tuples(st.just("close"), _sessions, st.none()),
    st.tuples(st.sampled_from(["hold", "release one", "outage", "fail", "mend"]), st.none(), st.none()),
    st.tuples(st.just("wait"), st.none(), st.sampled_from([0.1, 1.0, 30.0])),
)
_some = st.tuples(st.lists(_change, min_size=3, max_size=8), _others).map(lambda drawn: [*drawn[0], drawn[1]])
_steps = st.lists(_some, min_size=4, max_size=8).map(lambda drawn: [step for some in drawn for step in some])


class Scene:
    """A registry with limits and a budget, and the outcome of every change."""

    def __init__(self, *, is_short):
        self.reactor, self.counters, self.clock = Clock(), Counter(), FakeClock()
        self.bench = Bench(settings=SETTINGS, clock=self.clock)
        self.bench.take_short_way(is_short)
        self.registry, self.journal = self.bench.registry, self.bench.journal
        self.registry.spending.enforce(self.reactor.callLater, self.counters)
        self.ids = [self.bench.open(f"10.0.0.1:{number}") for number in SESSIONS]
        self.outcomes = []

    def do(self, what, session, detail):
        if what in ("register", "unregister"):
            self.outcomes.append(outcome_of(getattr(self.registry, f"{what}_service")(self.ids[session], detail)))
        elif what == "lose":
            self.registry.lose_service(self.ids[session], detail, "lease-over")
        elif what == "close":
            self.registry.close_session(self.ids[session], "client-closed", Traffic())
            self.ids[session] = self.bench.open(f"10.0.0.1:{session}")
        elif what == "wait":
            self.clock.advance(detail)
            self.reactor.advance(detail)
        elif what == "release one":
            self.journal.release(1)
        else:
            {
                "hold": self.journal.hold,
                "outage": lambda: (self.journal.fail("full"), self.journal.fail(None)),
                "fail": lambda: self.journal.fail("full"),
                "mend": lambda: (self.journal.fail(None), self.journal.release()),
            }[what]()

    def seen(self):
        """Everything that a client, an observer, the journal and later checks may notice."""
        planned = self.registry._planned
        return (
            self.outcomes,
            self.journal.records,
            self.bench.watcher.told,
            self.bench.state.services,
            [sorted(planned.provided_by(each)) for each in self.ids],
            planned.own_services,
            planned.pending,
            self.journal.held,
            self.counters,
        )


@settings(max_examples=sized(300))
@given(_steps)
def test_the_short_way_does_the_same(steps):
    short, plain = Scene(is_short=True), Scene(is_short=False)
    for step in steps:
        short.do(*step)
        plain.do(*step)
        assert short.seen() == plain.seen()
