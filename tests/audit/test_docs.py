"""What the documentation says about findings is so. Of the other tables, the tests of what is written say it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bussrv.audit.kinds import KINDS
from bussrv.incidents.vocabulary import REFUSALS
from tests.audit.conftest import without_report
from tests.audit.journals import day, write_journal

DOCS = Path(__file__).parents[2] / "docs"
PAGES = "\n".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "reference/audit").glob("*.md")))
TEXT = (DOCS / "how-to/audit.md").read_text(encoding="utf-8")


def documented(heading: str) -> list[tuple[str, str]]:
    """The first two cells of each row of the first table below a heading; a first cell with two names is two rows."""
    table = re.search(rf"^#+ {heading}\n.*?^\|---.*?\n(.*?)(?:^$|\Z)", PAGES, re.MULTILINE | re.DOTALL)
    assert table, heading
    cells = [line.split("|")[1:3] for line in table[1].splitlines()]
    return [(name, second.strip()) for first, second in cells for name in re.findall(r"`(.*?)`", first)]


def test_kinds() -> None:
    journal_facts, of_records = documented("What it checks"), documented("Findings about what records say")
    assert dict([*journal_facts, *of_records]) == KINDS
    assert len(journal_facts) + len(of_records) == len(KINDS)


def test_the_events_of_refusals() -> None:
    section = re.search(r"^## refusals\n(.*?)^\|", PAGES, re.MULTILINE | re.DOTALL)
    assert section
    assert set(re.findall(r"`([a-z]+\.[a-z]+)`", section[1])) == REFUSALS


@pytest.mark.long
def test_the_snippet(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    write_journal(tmp_path / "bussrv-journal", day().records)
    monkeypatch.chdir(tmp_path)
    printed: list[tuple[object, ...]] = []
    with without_report():
        exec(snippet, {"spark": spark, "print": lambda *words: printed.append(words)})
    assert printed == [(True, {}), (True, [])]
