"""The arithmetic of ``docs/explanation/sizing.md`` is right, and begins with figures that other pages have."""

from __future__ import annotations

import re

import pytest

from bussrv.settings import Settings
from tests.docs.pages import page, rows

SIZING = "docs/explanation/sizing.md"
GIGABIT = 125_000_000


def number(text: str) -> float:
    return float(re.sub(r"[^\d.]", "", text))


def test_the_limits_of_a_mesh_follow_from_its_formulas() -> None:
    table = [row for row in rows(SIZING) if row[0].isdigit()]
    assert [row[0] for row in table] == ["3", "5", "10", "20", "50", "100"]
    for servers, *shown in table:
        others = int(servers) - 2
        cpu = 0.41 + others * 0.13
        expected = (cpu, 1e6 / cpu, GIGABIT / (120 + others * 130))
        assert [number(each) for each in shown] == [pytest.approx(each, rel=0.006) for each in expected]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("docs/explanation/performance.md", "takes 0.22 µs with 50 members"),
        ("docs/explanation/performance.md", "One that came already over another link takes\n0.13"),
        ("docs/explanation/performance.md", "after 20\nobjects, an object takes 0.41 µs"),
        ("docs/explanation/performance.md", "| 1 to 50 | 12.2 M"),
        ("docs/explanation/performance.md", "| 1 to 1 | 1.98 M"),
        ("docs/explanation/performance.md", "| 50 to 1 | 0.56 M"),
        ("docs/explanation/performance.md", "and replies | 64,000"),
        ("docs/explanation/performance.md", "| publish | 0.8 | 1.7 |"),
        ("docs/explanation/performance.md", "| 2.3 | 4.3 |"),
        ("docs/reference/capacity.md", "| 2,500 | 15,900 | 34,100 | 36,800 |"),
        ("docs/reference/capacity.md", "takes about 20 µs in the thread of the reactor and 8 µs"),
        ("docs/reference/capacity.md", "is idle takes 6.1 KiB of the server's memory, and about 18 KiB more over TLS"),
        ("docs/reference/capacity.md", "snapshots 450 on average"),
        ("docs/reference/capacity.md", "about 440 bytes for each session"),
    ],
)
def test_what_it_calls_measured_is_where_it_says(name: str, said: str) -> None:
    assert said in page(name)


def test_the_defaults_that_it_names_are_the_defaults() -> None:
    settings = Settings()
    assert (settings.max_linked, settings.max_remote_sessions, settings.max_link_interest) == (
        250_000,
        100_000,
        200_000,
    )
    assert (settings.max_links, settings.max_seen) == (64, 131_072)
    changes = 2 * (100_000 + 20_000) / 3600
    assert changes == pytest.approx(67, rel=0.01)
    assert changes * 450 * 86_400 == pytest.approx(2.6e9, rel=0.01)
