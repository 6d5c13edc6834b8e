"""What is compared. A scenario has a lane for each server that takes part: the same thing in that server's words.

Objects have an ``id`` each that nothing else has, content types that change from one to the next, and metadata of 100
bytes unless the scenario says otherwise. Brokers without metadata are given the bare payload; in the scenarios
with rich metadata they are given as many bytes more of it, since what it says would have to stand there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compare_servers import BUSSRV, FORMATS, PEERS

WINDOW = 1000
"""Publications in flight, unless the scenario says otherwise."""


@dataclass(frozen=True)
class Lane:
    """What one server does in a scenario.

    :ivar server: which one.
    :ivar parties: who takes part, as the load generator has it; ``{FORMAT}`` stands for the format and its port.
    :ivar options: of the load generator.
    :ivar name: what it is called in the results; the server, when that has only one lane.
    """

    server: str
    parties: Sequence[str]
    options: Mapping[str, object] = field(default_factory=dict)
    name: str = ""

    @property
    def label(self) -> str:
        """What it is called in the results."""
        return self.name or self.server


@dataclass(frozen=True)
class Scenario:
    """Something to compare the servers by.

    :ivar quick: it belongs to the quick set, too.
    """

    name: str
    title: str
    lanes: Sequence[Lane]
    quick: bool = False


def _between(publishers: int, subscribers: int, format_name: str) -> list[str]:
    return [f"pub:{{{format_name}}}:{publishers}", f"sub:{{{format_name}}}:{subscribers}"]


def _broadcast(publishers: int, subscribers: int, /, rich: str = "", **options: object) -> list[Lane]:
    """Everybody gets everything, over objects and over each peer. :param rich: the range of bytes of metadata."""
    ours = {**options, "metadata": rich} if rich else options
    theirs = {**options, "extra": rich} if rich else options
    return [
        Lane(BUSSRV, _between(publishers, subscribers, "objects"), ours),
        *(Lane(peer, _between(publishers, subscribers, FORMATS[peer]), theirs) for peer in PEERS),
    ]


RICH = "100:2048"

SCENARIOS = (
    Scenario("a", "1 publisher, 50 subscribers, 16 B", _broadcast(1, 50), quick=True),
    Scenario("a-one", "the same, one publication in flight", _broadcast(1, 50, window=1)),
    Scenario("a-rich", "1 publisher, 50 subscribers, 16 B, metadata of 100 B to 2 KiB", _broadcast(1, 50, rich=RICH)),
    Scenario("b", "1 publisher, 50 subscribers, 1 KiB", _broadcast(1, 50, payload=1024), quick=True),
    Scenario("c", "1 publisher, 1,000 subscribers, 100 B", _broadcast(1, 1000, payload=100, window=250), quick=True),
    Scenario("d", "1 publisher, 1 subscriber, 16 B", _broadcast(1, 1), quick=True),
    Scenario("d-rich", "1 publisher, 1 subscriber, 16 B, metadata of 100 B to 2 KiB", _broadcast(1, 1, rich=RICH)),
    Scenario("e", "50 publishers, 1 subscriber, 16 B", _broadcast(50, 1), quick=True),
    Scenario("f", "1,000 publications a second to 10 subscribers, 16 B", _broadcast(1, 10, rate=1000), quick=True),
)
