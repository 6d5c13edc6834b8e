"""Thresholds, the order of incidents, and their names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bussrv.incidents.judging import (
    LONG,
    NOTABLE,
    RULES,
    SOURCES,
    WEIGHTS,
    Incident,
    happened,
    id_of,
    is_incident,
    weight_of,
)
from bussrv.incidents.words import NAMES, title, what_happened, what_to_do
from tests.tables import check_each

ROWS = {
    "guessing": (Incident(what="guessing", number=NOTABLE, others=SOURCES), "number", "others"),
    "address": (Incident(what="address", number=NOTABLE - 1, others=1), "number", "others"),
    "crash": (Incident(what="crash", number=1), "number"),
    "identity": (Incident(what="identity", number=1), "number"),
    "witness": (Incident(what="witness", number=1), "number"),
    "takeover": (Incident(what="takeover", number=1), "number"),
    "outage": (Incident(what="outage", number=1, seconds=float(LONG)), "seconds"),
    "link": (Incident(what="link", number=1, subject="attic", detail="attic is not linked"), "number"),
    "clock": (Incident(what="clock", number=1, subject="attic", detail="it is 5.0 s ahead"), "number"),
    "trouble": (Incident(what="trouble", number=1, subject="disk"), "number"),
}
"""The least incident of each kind, and what it is too little without."""


def test_each_kind_has_a_threshold() -> None:
    assert {*ROWS} == {*RULES} == {*WEIGHTS} == {*NAMES}

    def check(what: str) -> None:
        row, *fields = ROWS[what]
        assert is_incident(row)
        for name in fields:
            less = {each: getattr(row, each) for each in row.__struct_fields__} | {name: getattr(row, name) - 1}
            assert not is_incident(Incident(**less))
        assert (bool(title(row)), bool(what_to_do(row)), weight_of(row) in (1, 2, 3)) == (True, True, True)
        assert what_happened(row) or what == "trouble"

    check_each(zip(ROWS, ROWS, strict=True), check)


SUMS = st.lists(
    st.builds(
        Incident,
        what=st.sampled_from(list(RULES)),
        number=st.integers(0, 40),
        others=st.integers(0, 40),
        seconds=st.floats(0, 100),
        server=st.sampled_from((None, "hall", "barn")),
        address=st.sampled_from((None, "::1", "\x1b[31m")),
        begin=st.sampled_from((None, 1, 2)),
    ),
    max_size=40,
)


@given(SUMS, st.integers(1, 5))
def test_the_worst_come_first_and_all_are_counted(rows: list[Incident], most: int) -> None:
    found = happened(rows, {"crash": 7}, most)
    expected = {what: sum(each.what == what and is_incident(each) for each in rows) for what in RULES}
    expected["crash"] += 7
    assert found.numbers == {what: number for what, number in expected.items() if number}
    for what in RULES:
        mine = [each for each in found.rows if each.what == what]
        assert len(mine) <= most
        lighter = [each for each in rows if each.what == what and is_incident(each) and each not in mine]
        for shown in mine:
            assert all(RULES[what].weight(shown) >= RULES[what].weight(each) for each in lighter)
    assert found == happened(reversed(rows), {"crash": 7}, most)


@given(st.text(max_size=9), st.text(max_size=9))
def test_an_id_is_plain_whatever_names_there_are(one: str, other: str) -> None:
    first, second = (Incident(what="guessing", claimed=each, begin=1) for each in (one, other))
    assert (id_of(first).isalnum(), len(id_of(first))) == (True, 12)
    assert (id_of(first) == id_of(second)) == (one == other)
