"""Journals that Hypothesis makes up, sound or not, damaged or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bussrv import events as ev
from bussrv.journal.record import Record, encode
from bussrv.journal.segment import list_segments
from tests.audit.journals import START, STEP, Line, Writer, chained, compress, write_lines

# What a server may write, sound or not: an event, a session (of whichever boot) and a service.
KINDS_OF_STEPS = (
    "start",
    "stop",
    "open-persistent",
    "open-durable",
    "open-far",
    "leave",
    "come-back",
    "come-back-as-another",
    "take-subscription",
    "identify",
    "unregister",
    "refuse",
    "limit",
    "degraded",
    "restored",
    "recovered",
    "subscribe",
    "unsubscribe",
    "renew",
    "lose-service",
    "lose-subscription",
    "set-back",
    "run-back",
    "close-soundly",
)
STEPS = st.tuples(
    st.sampled_from((*KINDS_OF_STEPS, *("open", "close", "register") * 2)),
    st.integers(0, 3),
    st.sampled_from(["tv", "radio"]),
)

# What happens to the lines: where, as a part of the journal, and what.
DAMAGE = st.tuples(
    st.floats(0, 1, exclude_max=True),
    st.sampled_from(["drop", "repeat", "garble", "blank", "unknown-event", "join", "change", "repeat-later"]),
)


@dataclass(frozen=True)
class Plan:
    """What a journal is to look like."""

    first_seq: int
    steps: list[tuple[str, int, str]]
    damage: list[tuple[float, str]]
    cuts: list[float]
    torn: bytes
    compressed: list[bool]
    is_hidden: bool


PLANS = st.builds(
    Plan,
    first_seq=st.sampled_from([1, 1, 1, 70]),
    steps=st.lists(STEPS, min_size=1, max_size=25),
    damage=st.lists(DAMAGE, max_size=3),
    cuts=st.lists(st.floats(0, 1), max_size=2),
    torn=st.sampled_from([b"", b"", b'{"v":4,']),
    compressed=st.lists(st.booleans(), min_size=3, max_size=3),
    is_hidden=st.booleans(),
)


def records(server: str, plan: Plan) -> list[Record]:
    writer = Writer(server, plan.first_seq)
    if plan.first_seq == 1:
        writer.start()
    opened: list[str] = []
    for kind, number, service in plan.steps:
        session = opened[number % len(opened)] if opened else writer.id(number)
        if kind.startswith("open"):
            opened.append(writer.id(number))
        write_step(writer, kind, opened[-1] if kind.startswith("open") else session, service)
    return writer.records


def shift(writer: Writer, time: int = 0, mono: int = 0) -> None:
    """A record with another stamp."""
    writer.write(ev.ConfigReloaded())
    last = writer.records[-1]
    writer.records[-1] = replace(last, time=last.time + time, mono=last.mono + mono)


def write_step(writer: Writer, kind: str, session: str, service: str) -> None:
    steps: dict[str, Callable[[], None]] = {
        "start": writer.start,
        "stop": writer.stop,
        "open": lambda: writer.open(session),
        "open-persistent": lambda: writer.open(session, persistent=True, protocol="inbus"),
        "open-durable": lambda: writer.open(session, persistent=True, expiry=STEP, actor="ann", protocol="mqtt"),
        "leave": lambda: writer.write(ev.SessionLeft(session=session, until=START + writer.seq * STEP, reason="lost")),
        "come-back": lambda: writer.write(ev.SessionResumed(session=session, expiry=STEP, actor="ann")),
        "come-back-as-another": lambda: writer.write(ev.SessionResumed(session=session, expiry=1, actor=service)),
        "take-subscription": lambda: writer.write(
            ev.SubscriptionRemoved(session=session, service=service, reason="permission-withdrawn")
        ),
        "open-far": lambda: writer.open(session, home="attic"),
        "identify": lambda: writer.write(ev.SessionIdentified(session=session, actor=service, routing_id=service)),
        "close": lambda: writer.close(session, bytes_out=writer.seq),
        "register": lambda: writer.register(session, service),
        "unregister": lambda: writer.unregister(session, service),
        "refuse": lambda: writer.write(ev.ServiceRefused(session=session, service=service, suppressed=2)),
        "recovered": lambda: writer.write(ev.ServerRecovered(sessions_closed=writer.seq % 2)),
        "subscribe": lambda: writer.write(ev.SubscriptionAdded(session=session, service=service)),
        "unsubscribe": lambda: writer.write(ev.SubscriptionRemoved(session=session, service=service)),
        "renew": lambda: writer.write(ev.SubscriptionRenewed(session=session, service=service)),
        "lose-service": lambda: writer.write(ev.ServiceUnregistered(session=session, service=service, reason="lost")),
        "lose-subscription": lambda: writer.write(
            ev.SubscriptionRemoved(session=session, service=service, reason="lease-expired")
        ),
        "set-back": lambda: shift(writer, time=-writer.seq * STEP),
        "run-back": lambda: shift(writer, mono=-writer.seq * STEP),
        "close-soundly": lambda: writer.close(session, reason="server-crashed"),
        "degraded": lambda: writer.write(ev.JournalDegraded(message="disk full")),
        "restored": lambda: writer.write(ev.JournalRestored(refused=1)),
        "limit": lambda: writer.write(ev.LimitReached(limit="sessions", value=3, peer="192.0.2.9")),
    }
    steps[kind]()


def damage(text: list[Line], plan: Plan) -> list[Line]:
    """These lines, with others in between or in the place of some."""
    text = [*text]
    for where, what in plan.damage:
        at = int(where * len(text))
        if not text:
            break
        here = text[at]
        line = here if isinstance(here, bytes) else encode(here)
        changed: dict[str, list[Line]] = {
            "drop": [],
            "repeat": [text[at], text[at]],
            "repeat-later": [text[at], text[at - 1]],
            "garble": [line[:-9] + b"\n"],
            "blank": [b"\n"],
            "unknown-event": [line.replace(b'"event":"', b'"event":"un')],
            "join": [line[:-1] + line],
            "change": [line.replace(b'"mono":', b'"mono":1').replace(b'"digest":"', b'"digest":"0')],
        }
        text[at : at + 1] = changed[what]
    return text


def write(directory: Path, plan: Plan) -> Path:
    """A journal whose lines are damaged before they are chained, as if somebody hid the damage, or after that."""
    text: list[Line] = [*records(directory.name, plan)]
    if plan.is_hidden:
        text = damage(text, plan)
    cuts = sorted(int(cut * len(text)) for cut in {0.0, 1.0, *plan.cuts})
    bounds = sorted({(start, end) for start, end in pairwise(cuts) if start < end}) or [(0, 0)]
    first_seqs = [plan.first_seq + start for start, _ in bounds]
    segments = chained([text[start:end] for start, end in bounds], first_seqs)
    if not plan.is_hidden:
        which = len(plan.damage) % len(segments)
        segments[which] = [line for line in damage([*segments[which]], plan) if isinstance(line, bytes)]
    segments[-1] += [*([] if any(segments) else [b"\n"]), plan.torn]
    write_lines(directory, segments, first_seqs)
    for path, is_compressed in zip(list_segments(directory), plan.compressed, strict=False):
        if is_compressed and path.read_bytes().endswith(b"\n"):
            compress(path)
    return directory


def draw(number: int) -> list[Plan]:
    """So many plans, for one audit: an audit of its own for each would take a while."""
    drawn: list[Plan] = []

    @settings(max_examples=number, database=None, phases=[Phase.generate])
    @given(PLANS)
    def collect(plan: Plan) -> None:
        drawn.append(plan)

    collect()
    return drawn
