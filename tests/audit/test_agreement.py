"""Whatever journals hold, Spark and a plain program say the same about them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from bussrv import events as ev
from bussrv.audit.findings import KINDS
from bussrv.audit.job import audit
from tests.audit import oracle
from tests.audit.conftest import Rows
from tests.audit.journals import Writer, lines, write_journal

pytestmark = pytest.mark.timeout(600)

# What a server may write, sound or not: an event, a session (of whichever boot) and a service.
KINDS_OF_STEPS = (
    "start",
    "stop",
    "open-persistent",
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


@dataclass(frozen=True)
class Both:
    """What the plain program says, and what Spark says."""

    plans: dict[str, Plan]
    expected: oracle.Answer
    audited: oracle.Answer


@pytest.fixture(scope="module")
def both(
    spark: SparkSession, read_table: Callable[[Path, str], Rows], tmp_path_factory: pytest.TempPathFactory
) -> Both:
    root = tmp_path_factory.mktemp("agreement")
    plans = {f"server{number}": plan for number, plan in enumerate(draw(80))}
    journals = [write(root / server, plan) for server, plan in plans.items()]
    audit(spark, journals, root / "out")
    audited = oracle.Answer(
        findings(read_table(root / "out", "findings")),
        keyed(read_table(root / "out", "sessions"), "session"),
        keyed(read_table(root / "out", "services"), "service", "server"),
        events(read_table(root / "out", "events")),
    )
    return Both(plans, oracle.audit(journals), audited)


@pytest.mark.parametrize("table", ["findings", "sessions", "services", "events"])
def test_spark_and_a_plain_program_agree(both: Both, table: str) -> None:
    audited, expected = getattr(both.audited, table), getattr(both.expected, table)
    for each in sorted({*audited, *expected}, key=str):
        plan = next((plan for server, plan in both.plans.items() if server in re.split(r"[^a-z0-9]+", str(each))), None)
        assert (each, audited.get(each)) == (each, expected.get(each)), plan


def test_the_journals_were_worth_it(both: Both) -> None:
    kinds = {finding[0] for finding in both.expected.findings}
    assert len(kinds) > len(KINDS) / 2
    assert {session["state"] for session in both.expected.sessions.values()} == {"open", "closed"}
    assert any(service["provided_seconds"] for service in both.expected.services.values())


def findings(rows: Rows) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(value for name, value in row.items() if name not in {"severity", "message"}) for row in rows)


def keyed(rows: Rows, *names: str) -> dict[Any, dict[str, Any]]:
    answer = {}
    for row in rows:
        key = tuple(row.pop(name) for name in names)
        answer[key if len(key) > 1 else key[0]] = row
    assert len(answer) == len(rows)
    return answer


def events(rows: Rows) -> Counter[tuple[str, str, str | None, str]]:
    return Counter({(row["server"], row["event"], row["protocol"], row["outcome"]): row["records"] for row in rows})
