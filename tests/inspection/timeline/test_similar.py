"""Names that are like another one."""

from __future__ import annotations

from bussrv.inspection.timeline.similar import distance, similar_names
from tests.audit.wild_records import wild
from tests.inspection.timeline.in_memory import InMemory
from tests.tables import each_row


def test_names_that_are_similar() -> None:
    journals = [InMemory(wild(f"wild{seed}", seed)) for seed in range(20)]
    assert similar_names(journals, "tv-4") == ["tv-3", "tv"]
    assert similar_names(journals, "192.0.2.9") == ["192.0.2.9", "192.0.2.1", "192.0.2.1:5"]
    assert similar_names(journals, "nobody at all") == []


@each_row(
    ("one", "other", "wanted"),
    [("", "", 0), ("", "tv", 2), ("doorbel", "doorbell", 1), ("tv", "vt", 2), ("kitten", "sitting", 3)],
)
def test_a_distance(one: str, other: str, wanted: int) -> None:
    assert distance(one, other) == distance(other, one) == wanted
