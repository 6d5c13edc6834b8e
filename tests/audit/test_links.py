from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from bussrv import events as ev
from bussrv.audit.activity.boots import boots
from bussrv.audit.activity.links import links
from bussrv.audit.period import Period
from bussrv.journal.record import Record
from tests.audit import troubles
from tests.audit.frames import Rows, frame, in_order, rows
from tests.audit.journals import START, STEP, Writer
from tests.audit.oracles import links as oracle

UP = ev.LinkUp(routing_id="attic")
DOWN = ev.LinkDown(routing_id="attic", reason="connection-lost")
SECONDS = STEP / 1_000_000
NEVER: tuple[int | None, int | None] = (None, None)


def written(*events: ev.Event | str, first: int = 1) -> list[Record]:
    """A record for each event, ``STEP`` apart; ``boot`` is a new boot."""
    writer = Writer(seq=first)
    for each in events:
        if isinstance(each, str):
            writer.start()
        else:
            writer.write(each)
    return writer.records


def before(session: str, role: str | None = "server", home: str | None = None) -> list[Record]:
    """What a snapshot before record 5 says of a session that was opened long ago."""
    about: dict[str, Any] = {"session": session, "routing_id": "attic", "protocol": "objects"}
    known = (ev.SessionOpened(**about, home=home), ev.SessionIdentified(**about, role=role))
    return [Record(4, START - 1000 * STEP, mono, "hall", "hall-1", each) for mono, each in enumerate(known)]


def answer(spark: SparkSession, directory: Path, records: list[Record], given: list[Record], period: Period) -> Rows:
    table = frame(spark, directory, records, given).cache()
    return rows(links(table, boots(table), period))


# How many steps the link stood and was observed, and what else there is to say of it.
CASES: dict[str, tuple[list[Record], list[Record], tuple[int | None, int | None], dict[str, Any]]] = {
    "up and down": (
        written("boot", UP, ev.ConfigReloaded(), DOWN, ev.ConfigReloaded(), ev.ConfigReloaded()),
        [],
        NEVER,
        {"ups": 1, "downs": 1, "up_seconds": 2 * SECONDS, "observed_seconds": 4 * SECONDS, "availability": 0.5}
        | {"mtbf_seconds": 2 * SECONDS, "last_reason": "connection-lost", "up": False},
    ),
    "still up": (
        written("boot", UP, DOWN, UP, ev.ConfigReloaded(), ev.ConfigReloaded()),
        [],
        NEVER,
        {
            "ups": 2,
            "downs": 1,
            "up_seconds": 3 * SECONDS,
            "mtbf_seconds": 3 * SECONDS,
            "availability": 0.75,
            "up": True,
        },
    ),
    "lost in a crash": (
        written("boot", UP, ev.ConfigReloaded(), "boot", ev.ConfigReloaded(), DOWN),
        [],
        NEVER,
        {"ups": 1, "downs": 1, "up_seconds": SECONDS, "observed_seconds": 4 * SECONDS, "up": False},
    ),
    "lost in a crash that nobody wrote of": (
        written("boot", UP, ev.ConfigReloaded(), "boot", ev.ConfigReloaded()),
        [],
        NEVER,
        {"downs": 0, "up_seconds": SECONDS, "up": False, "mtbf_seconds": None, "last_reason": None},
    ),
    "up when the server stopped": (
        written("boot", UP, ev.ServerStopped()),
        [],
        NEVER,
        {"up": False, "availability": 1.0},
    ),
    "nothing observed": (written("boot", UP), [], NEVER, {"up": True, "availability": None, "observed_seconds": 0.0}),
    "up before the first record": (
        written("boot", ev.ConfigReloaded(), DOWN, ev.ConfigReloaded(), first=5),
        before("hall-1.7"),
        NEVER,
        {"ups": 0, "downs": 1, "up_seconds": 2 * SECONDS, "observed_seconds": 3 * SECONDS},
    ),
    "lost in a crash before the first record": (
        written("boot", ev.ConfigReloaded(), DOWN, first=5),
        before("hall-0.7"),
        NEVER,
        {"ups": 0, "downs": 1, "up_seconds": 0.0, "observed_seconds": 2 * SECONDS},
    ),
    "a period": (
        written("boot", UP, DOWN, UP, ev.ConfigReloaded(), DOWN, ev.ConfigReloaded(), UP, DOWN),
        [],
        (START + STEP * 9 // 2, START + STEP * 13 // 2),
        {"ups": 0, "downs": 1, "up_seconds": 1.5 * SECONDS, "observed_seconds": 1.5 * SECONDS, "availability": 1.0},
    ),
    "a period in which it was never up": (
        written("boot", UP, DOWN, ev.ConfigReloaded(), ev.ConfigReloaded(), ev.ConfigReloaded()),
        [],
        (START + STEP * 4, None),
        {"ups": 0, "downs": 0, "up_seconds": 0.0, "observed_seconds": 2 * SECONDS, "availability": 0.0},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_links(spark: SparkSession, tmp_path: Path, name: str) -> None:
    records, given, (since, until), expected = CASES[name]
    records = [each for each in records if until is None or each.time < until]
    [row] = answer(spark, tmp_path, records, given, Period(since, until))
    assert {key: row[key] for key in expected} == expected
    assert (row["server"], row["neighbour"]) == ("hall", "attic")
    assert [row] == oracle.links(records, given, since, until)


@pytest.mark.parametrize("given", [before("hall-1.7", role=None), before("hall-1.7", home="barn")])
def test_a_session_that_is_no_link_is_none(spark: SparkSession, tmp_path: Path, given: list[Record]) -> None:
    assert answer(spark, tmp_path, written("boot", first=5), given, Period()) == []


@pytest.mark.parametrize("is_clipped", [False, True])
def test_the_oracle_finds_the_same(spark: SparkSession, tmp_path: Path, is_clipped: bool) -> None:
    since, until = (START + 6 * STEP, START + 20 * STEP) if is_clipped else NEVER
    drawn = [each for each in troubles.draw(100) if until is None or each.time < until]
    synthetic = troubles.synthetic(tmp_path / "synthetic")
    records = drawn if is_clipped else [*drawn, *synthetic]
    given = [replace(each, server=f"server{number}", seq=0) for number in range(0, 100, 3) for each in before("x.1")]
    given = [each for each in given if any(each.server == record.server for record in records)]
    found = in_order(answer(spark, tmp_path, records, given, Period(since, until)))
    assert found == in_order(oracle.links(records, given, since, until))
    assert len({row["up"] for row in found}) == 2
