"""Two servers that dial each other, whatever time the network and the disks take: of two links one stays."""

from collections.abc import Iterator, Sequence
from itertools import cycle

from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock

from bussrv import events as ev
from bussrv.journal.interfaces import Waiter
from bussrv.journal.record import Stamped
from bussrv.testing.journal import SteeredJournal
from tests.bus.links.fabric import LATENCY, Fabric
from tests.size import sized

LONG = 10.0
"""Seconds in which every attempt is over, with the delays between them."""

delays = st.integers(0, 20).map(lambda hundredths: hundredths / 100)


def slow_down(journal: SteeredJournal, clock: Clock, disk: Iterator[float]) -> None:
    """Let a journal take some time to make each entry durable; the order stays."""
    journal.hold()
    append_change, append_fact = journal.append_change, journal.append_fact

    def release() -> None:
        if journal.held:
            journal.release(1)

    def append_change_slowly(stamped: Sequence[Stamped], waiter: Waiter) -> None:
        clock.callLater(next(disk), release)
        append_change(stamped, waiter)

    def append_fact_slowly(stamped: Stamped) -> None:
        clock.callLater(next(disk), release)
        append_fact(stamped)

    journal.append_change, journal.append_fact = append_change_slowly, append_fact_slowly  # type: ignore[method-assign]


@settings(max_examples=sized(300))
@given(
    latencies=st.tuples(delays, delays),
    begins=st.tuples(delays, delays),
    disks=st.tuples(st.lists(delays, min_size=1, max_size=8), st.lists(delays, min_size=1, max_size=8)),
)
@example(latencies=(0.2, 0.0), begins=(0.0, 0.3), disks=([0.2], [0.0]))
def test_neither_dials_again(
    latencies: tuple[float, float], begins: tuple[float, float], disks: tuple[list[float], list[float]]
) -> None:
    fabric = Fabric("a", "b", max_link_delay=0.01)
    for name, disk in zip("ab", disks, strict=True):
        slow_down(fabric[name].journal, fabric.clock, cycle(disk))
    for pair, latency, begin in zip(("ab", "ba"), latencies, begins, strict=True):
        fabric.clock.callLater(begin, fabric.link, *pair, latency + LATENCY)
    fabric.run(LONG)
    for name, other in ("ab", "ba"):
        server = fabric[name]
        assert server.bus.links.neighbors() == [other]
        assert len(fabric.cables[name, other].attempts) == 1
        ends = len(server.events(ev.LinkDown))
        assert ends <= 1
        assert len(server.events(ev.LinkUp)) == 1 + ends
