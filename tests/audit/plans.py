"""Journals that Hypothesis makes up, sound or not, damaged or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from bussrv import events as ev
from tests.audit.journals import Writer, lines, write_journal

# What a server may write, sound or not: an event, a session (of whichever boot) and a service.
KINDS_OF_STEPS = (
    "start",
    "stop",
    "open-persistent",
    "open-far",
    "identify",
    "unregister",
    "refuse",
    "limit",
    "degraded",
    "restored",
)
STEPS = st.tuples(
    st.sampled_from((*KINDS_OF_STEPS, *("open", "close", "register") * 2)),
    st.integers(0, 3),
    st.sampled_from(["tv", "radio"]),
)

# What happens to the lines: where, as a part of the journal, and what.
DAMAGE = st.tuples(
    st.floats(0, 1, exclude_max=True),
    st.sampled_from(["drop", "repeat", "garble", "blank", "unknown-event", "join"]),
)


@dataclass(frozen=True)
class Plan:
    """What a journal is to look like."""

    first_seq: int
    steps: list[tuple[str, int, str]]
    damage: list[tuple[float, str]]
    cuts: list[float]
    torn: bytes


PLANS = st.builds(
    Plan,
    first_seq=st.sampled_from([1, 1, 1, 70]),
    steps=st.lists(STEPS, min_size=1, max_size=25),
    damage=st.lists(DAMAGE, max_size=3),
    cuts=st.lists(st.floats(0, 1), max_size=2),
    torn=st.sampled_from([b"", b"", b'{"v":1,']),
)


def records(server: str, plan: Plan) -> list[bytes]:
    writer = Writer(server, plan.first_seq)
    if plan.first_seq == 1:
        writer.start()
    opened: list[str] = []
    for kind, number, service in plan.steps:
        session = opened[number % len(opened)] if opened else writer.id(number)
        if kind.startswith("open"):
            opened.append(writer.id(number))
        write_step(writer, kind, opened[-1] if kind.startswith("open") else session, service)
    return lines(writer.records)


def write_step(writer: Writer, kind: str, session: str, service: str) -> None:
    steps: dict[str, Callable[[], None]] = {
        "start": writer.start,
        "stop": writer.stop,
        "open": lambda: writer.open(session),
        "open-persistent": lambda: writer.open(session, persistent=True, protocol="inbus"),
        "open-far": lambda: writer.open(session, home="attic"),
        "identify": lambda: writer.write(ev.SessionIdentified(session=session, actor=service, routing_id=service)),
        "close": lambda: writer.close(session, bytes_out=writer.seq),
        "register": lambda: writer.register(session, service),
        "unregister": lambda: writer.unregister(session, service),
        "refuse": lambda: writer.write(ev.ServiceRefused(session=session, service=service, suppressed=2)),
        "degraded": lambda: writer.write(ev.JournalDegraded(message="disk full")),
        "restored": lambda: writer.write(ev.JournalRestored(refused=1)),
        "limit": lambda: writer.write(ev.LimitReached(limit="sessions", value=3, peer="192.0.2.9")),
    }
    steps[kind]()


def damage(text: list[bytes], plan: Plan) -> None:
    for where, what in plan.damage:
        at = int(where * len(text))
        if not text:
            return
        changed: dict[str, list[bytes]] = {
            "drop": [],
            "repeat": [text[at], text[at]],
            "garble": [text[at][:-9] + b"\n"],
            "blank": [b"\n"],
            "unknown-event": [text[at].replace(b'"event":"', b'"event":"un')],
            "join": [text[at][:-1] + text[at]],
        }
        text[at : at + 1] = changed[what]


def write(directory: Path, plan: Plan) -> Path:
    text = records(directory.name, plan)
    damage(text, plan)
    cuts = sorted(int(cut * len(text)) for cut in {0.0, 1.0, *plan.cuts})
    bounds = sorted({(start, end) for start, end in pairwise(cuts) if start < end})
    segments = [text[start:end] for start, end in bounds] or [[]]
    segments[-1] = [*segments[-1], *([] if text else [b"\n"]), plan.torn]
    first_seqs = [plan.first_seq + start for start, _ in bounds] or [plan.first_seq]
    return write_journal(directory, *segments, first_seqs=first_seqs)


def draw(number: int) -> list[Plan]:
    """So many plans, for one audit: an audit of its own for each would take a while."""
    drawn: list[Plan] = []

    @settings(max_examples=number, database=None, phases=[Phase.generate])
    @given(PLANS)
    def collect(plan: Plan) -> None:
        drawn.append(plan)

    collect()
    return drawn
