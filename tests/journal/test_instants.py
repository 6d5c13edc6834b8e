"""Times as people name them."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.journal.instants import UTC, parse_when, parse_zone, time_in
from bussrv.journal.record import format_time, parse_time
from tests.tables import each_row

NOW = parse_time("2026-11-21T14:02:03.500000Z")
BERLIN = ZoneInfo("Europe/Berlin")
EAST = timezone(timedelta(hours=14))


@each_row(
    ("text", "zone", "wanted"),
    [
        ("now", UTC, "2026-11-21T14:02:03.500000Z"),
        ("-2h", UTC, "2026-11-21T12:02:03.500000Z"),
        ("-1h30m", BERLIN, "2026-11-21T12:32:03.500000Z"),
        ("-90s", UTC, "2026-11-21T14:00:33.500000Z"),
        ("-2min", UTC, "2026-11-21T14:00:03.500000Z"),
        ("-1w1d", UTC, "2026-11-13T14:02:03.500000Z"),
        ("today", UTC, "2026-11-21T00:00:00.000000Z"),
        ("today", BERLIN, "2026-11-20T23:00:00.000000Z"),
        ("today", EAST, "2026-11-21T10:00:00.000000Z"),
        ("yesterday", UTC, "2026-11-20T00:00:00.000000Z"),
        ("yesterday", EAST, "2026-11-20T10:00:00.000000Z"),
        ("08:15", UTC, "2026-11-21T08:15:00.000000Z"),
        ("08:15:01.25", BERLIN, "2026-11-21T07:15:01.250000Z"),
        ("08:15+02:00", BERLIN, "2026-11-21T06:15:00.000000Z"),
        ("2026-07-01", BERLIN, "2026-06-30T22:00:00.000000Z"),
        ("2026-07-01T12:00", BERLIN, "2026-07-01T10:00:00.000000Z"),
        ("2026-07-01 12:00:00.000001", UTC, "2026-07-01T12:00:00.000001Z"),
        ("2026-07-01T12:00:00Z", BERLIN, "2026-07-01T12:00:00.000000Z"),
        ("2026-07-01T12:00:00-05:30", BERLIN, "2026-07-01T17:30:00.000000Z"),
        # The hour that comes twice, and the one that does not come.
        ("2026-10-25T02:30", BERLIN, "2026-10-25T00:30:00.000000Z"),
        ("2026-03-29T02:30", BERLIN, "2026-03-29T01:30:00.000000Z"),
    ],
)
def test_a_time(text: str, zone: tzinfo, wanted: str) -> None:
    assert format_time(parse_when(text, NOW, zone)) == wanted


@each_row(
    "text",
    [
        *(
            "",
            " ",
            "Z",
            "5",
            "noon",
            "-",
            "-2",
            "-2y",
            "2h",
            "-2h ",
            "--2h",
            "-h",
            "tomorrow",
            "24:00",
            "7:15",
            "08:15:",
        ),
        *("2026-13-01", "2026-11-21T", "2026-11-21 ", "2026-11-2114:02", "2026-11-21T14:02:03.1234567Z", "T14:02"),
        *(
            "2026-11-21T14:02+1",
            "2026-11-21T14:02+99:00",
            "2026-11-21Z",
            "٠٨:١٥",
            "-999999999w",
            "-999999999999s",
            "08:15:",
        ),
    ],
)
def test_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time such as 2026-11-21T14:02:03Z, 14:02, yesterday or -2h"):
        parse_when(text, NOW)


@given(micros=st.integers(0, parse_time("9999-12-30T00:00:00.000000Z")), zone=st.sampled_from([UTC, BERLIN, EAST]))
def test_a_time_in_a_zone_reads_back(micros: int, zone: tzinfo) -> None:
    assert parse_when(time_in(micros, zone), NOW, BERLIN) == micros
    assert datetime.fromisoformat(time_in(micros, zone).replace("Z", "+00:00")).timestamp() == pytest.approx(
        micros / 1e6
    )


def test_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_zone("UTC") is UTC
    assert parse_zone("Europe/Berlin") == BERLIN
    monkeypatch.setitem(os.environ, "TZ", "Europe/Berlin")
    assert parse_zone("local") == BERLIN
    for unknown in ("Mars/Crater", "", "../etc/passwd", "/etc/localtime"):
        with pytest.raises(ValueError, match="this machine knows no time zone"):
            parse_zone(unknown)


def test_the_zone_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TZ", raising=False)
    here = datetime(2026, 7, 1, 12, tzinfo=parse_zone("local"))
    assert here.utcoffset() == datetime(2026, 7, 1, 12).astimezone().utcoffset()
