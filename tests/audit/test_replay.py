"""The registry at an instant, the difference between two, and timelines: Spark says what a plain program says."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bussrv.audit.replay.registry import Registry, difference, registry_at
from bussrv.audit.replay.timeline import similar_names, timeline
from bussrv.audit.store import Store
from bussrv.inspection import difference as differences
from bussrv.inspection.history import snapshots
from bussrv.journal.moments import Moment
from bussrv.journal.reading import read_journal
from bussrv.journal.record import Record
from bussrv.registry.snapshot import Snapshot
from bussrv.synth.journal import write_journal
from tests.audit.frames import frame
from tests.audit.oracles import replay as oracle
from tests.audit.wild_records import MOMENT, given, wild

pytestmark = pytest.mark.timeout(600)

WILD = 150
AT_MOMENT = Moment(time=MOMENT)
EARLY, LATE = Moment(seq=14), Moment(seq=33)

Rows = Counter[tuple[Any, ...]]


@dataclass
class Stories:
    """The records of many servers.

    :ivar began: of some, after how many records those that the audit sees begin.
    :ivar registries: what Spark says of some moments, computed once.
    """

    records: dict[str, list[Record]]
    began: dict[str, int]
    table: DataFrame
    registries: dict[Moment, Registry]

    def snapshots(self, moment: Moment) -> dict[str, Snapshot]:
        return {
            server: oracle.registry_at(records, moment, self.began.get(server, 0) + 1)
            for server, records in self.records.items()
        }


@pytest.fixture(scope="module")
def stories(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stories:
    place = tmp_path_factory.mktemp("stories")
    records = {f"wild{seed}": wild(f"wild{seed}", seed, steady=seed % 2 == 0) for seed in range(WILD)}
    write_journal(place / "synth", events=600, server="synth", uptime=1800e6)
    records["synth"] = [*read_journal(place / "synth")]
    began = {f"wild{seed}": 1 + seed % 13 for seed in range(0, WILD, 3)}
    shown = [each for server, some in records.items() for each in some[began.get(server, 0) :]]
    before = [each for server, count in began.items() for each in given(records[server], count)]
    keep = Store(spark, place).keep
    table = keep("records", frame(spark, place, shown, before))
    registries = {each: cached(registry_at(table, each, keep)) for each in (AT_MOMENT, EARLY, LATE)}
    return Stories(records, began, table, registries)


def cached(registry: Registry) -> Registry:
    return Registry(*(micros(table).cache() for table in registry))


def micros(table: DataFrame) -> DataFrame:
    return table.select(
        *[F.unix_micros(name).alias(name) if kind == "timestamp" else F.col(name) for name, kind in table.dtypes]
    )


def as_text(value: object) -> Any:
    """JSON, however its members are sorted."""
    return None if value is None else json.dumps(json.loads(str(value)), sort_keys=True)


def said(registry: Registry) -> dict[str, Rows]:
    return {name: Counter(map(comparable, collected(table))) for name, table in registry._asdict().items()}


def collected(table: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in table.collect()]


def comparable(row: dict[str, Any]) -> tuple[Any, ...]:
    texts = {name: as_text(row[name]) for name in ("interest", "options") if name in row}
    return tuple(sorted((name, str(value)) for name, value in {**row, **texts}.items()))


def of_snapshots(found: dict[str, Snapshot]) -> dict[str, Rows]:
    sessions, services, subscriptions = [], [], []
    for server, shown in found.items():
        sessions += [session_row(server, each) for each in shown.sessions]
        services += [(server, name, each) for name, some in shown.services.items() for each in some]
        subscriptions += [subscription_row(server, each) for each in shown.subscriptions]
    return {
        "sessions": Counter(map(comparable, sessions)),
        "services": Counter(services),
        "subscriptions": Counter(map(comparable, subscriptions)),
    }


def session_row(server: str, session: Any) -> dict[str, Any]:
    row = msgspec.to_builtins(session)
    return {"server": server, "session": row.pop("id"), **row, "routing_ids": list(row["routing_ids"])}


def subscription_row(server: str, each: Any) -> dict[str, Any]:
    row = msgspec.to_builtins(each)
    texts = {name: None if row[name] is None else json.dumps(row[name]) for name in ("interest", "options")}
    return {"server": server, "session": each.session, "service": each.service, "since": each.added, **texts}


@pytest.mark.parametrize("moment", [AT_MOMENT, LATE], ids=str)
def test_the_registry_at_a_moment(stories: Stories, moment: Moment) -> None:
    """Of a time, it is another place in the records of each server."""
    found = stories.registries[moment]
    wanted = of_snapshots(stories.snapshots(moment))
    answer = said(found)
    answer["services"] = Counter((row["server"], row["service"], row["session"]) for row in collected(found.services))
    for name, rows in wanted.items():
        assert rows, name
        assert answer[name] == rows, name


def test_when_services_were_registered(stories: Stories) -> None:
    found = collected(stories.registries[AT_MOMENT].services)
    assert {(row["server"], row["service"], row["session"]): row["since"] for row in found} == {
        (server, name, session): time
        for server, records in stories.records.items()
        for name, session, time in registered(records, stories.began.get(server, 0) + 1)
    }


def registered(records: list[Record], first: int) -> Iterable[tuple[str, str, int]]:
    from bussrv.registry.fold import RegistryFold

    fold = RegistryFold()
    for each in records:
        if each.seq >= first and AT_MOMENT.is_before(each):
            break
        fold.apply(each.event, each.time)
    for name, providers in fold.state.services.items():
        for session, time in providers.items():
            yield name, session, time


def test_the_difference_between_two_moments(stories: Stories) -> None:
    found = difference(stories.registries[EARLY], stories.registries[LATE])
    answer = Counter(
        (kind, row["change"], row["server"], row["session"], row.get("service"))
        for kind, table in found._asdict().items()
        for row in collected(table)
    )
    before, after = stories.snapshots(EARLY), stories.snapshots(LATE)
    wanted: Counter[tuple[Any, ...]] = Counter()
    for server in stories.records:
        told = differences.difference(before[server], after[server])
        for kind in ("sessions", "services", "subscriptions"):
            changes = getattr(told, kind)
            for change in ("came", "went", "changed"):
                for each in getattr(changes, change):
                    one = each.after if change == "changed" else each
                    session = one.id if kind == "sessions" else one.session
                    wanted[kind, change, server, session, getattr(one, "service", None)] += 1
    assert {key[:2] for key in wanted} >= {("sessions", "changed"), ("subscriptions", "changed"), ("services", "went")}
    assert answer == wanted


def test_the_plain_program_says_what_journal_state_says(tmp_path: Path) -> None:
    write_journal(tmp_path / "journal", events=1500, server="hall", uptime=1800e6)
    records = [*read_journal(tmp_path / "journal")]
    moments = [Moment(time=each.time + shift) for each in records[::29] for shift in (-1, 0, 1)]
    moments += [Moment(seq=each.seq) for each in records[::31]]
    moments = [*dict.fromkeys(moments)]
    assert len(moments) > 150
    assert snapshots(tmp_path / "journal", moments) == [oracle.registry_at(records, each) for each in moments]


STORY = (
    *("server", "seq", "event", "concern", "about", "providers", "missing_since", "missing_until", "next_session"),
    *("with_session", "crashed_after", "back_at", "link", "link_reason", "newcomer"),
)


@pytest.mark.parametrize("name", ["tv", "tv-3"])
def test_a_timeline(spark: SparkSession, stories: Stories, tmp_path: Path, name: str) -> None:
    records = stories.table.where("NOT given")
    # What was before the beginning is not told here: the plain program would have to know it.
    whole = records.join(spark.createDataFrame([(each,) for each in stories.began], "server string"), "server", "anti")
    told = collected(micros(timeline(whole, name, Store(spark, tmp_path).keep)))
    wanted = Counter(
        tuple(row.get(column) for column in STORY)
        for server, some in stories.records.items()
        if server not in stories.began
        for row in oracle.timeline(some, name)
    )
    found = Counter(tuple(row[column] for column in STORY) for row in told)
    for column in STORY[4:]:
        assert any(row[STORY.index(column)] is not None for row in wanted), column
    assert [*(wanted - found).items()][:5] == []
    assert [*(found - wanted).items()][:5] == []
    for server in stories.records:
        numbers = [row["seq"] for row in told if row["server"] == server]
        assert numbers == sorted(numbers)


def test_names_that_are_similar(stories: Stories) -> None:
    assert similar_names(stories.table, "tv-4") == ["tv-3", "tv"]
    assert similar_names(stories.table, "192.0.2.9") == ["192.0.2.9", "192.0.2.1", "192.0.2.1:5"]
    assert similar_names(stories.table, "nobody at all") == []
