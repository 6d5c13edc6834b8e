"""What the documentation says about findings is so. Of the other tables, the tests of what is written say it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bussrv.audit import job
from bussrv.audit.findings import FINDING, KINDS
from bussrv.audit.job import Request, Verdict
from tests.audit.conftest import Collection

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "audit.md").read_text(encoding="utf-8")
PAGES = "\n".join([TEXT, *(path.read_text(encoding="utf-8") for path in sorted((DOCS / "audit").glob("*.md")))])


def documented(heading: str) -> list[tuple[str, str]]:
    """The first two cells of each row of the first table below a heading; a first cell with two names is two rows."""
    table = re.search(rf"^#+ {heading}\n.*?^\|---.*?\n(.*?)(?:^$|\Z)", PAGES, re.MULTILINE | re.DOTALL)
    assert table, heading
    cells = [line.split("|")[1:3] for line in table[1].splitlines()]
    return [(name, second.strip()) for first, second in cells for name in re.findall(r"`(.*?)`", first)]


def test_kinds() -> None:
    of_journals, of_records = documented("What it checks"), documented("Findings about what records say")
    assert dict([*of_journals, *of_records]) == KINDS
    assert len(of_journals) + len(of_records) == len(KINDS)


def test_findings() -> None:
    assert dict(documented("findings")) == FINDING


def test_the_snippet(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it asks for is what the tests of journals are about; here, it is answered with another audit."""
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    asked: list[tuple[object, Request]] = []

    def examine(spark: object, request: Request, *_: object) -> Verdict:
        asked.append((spark, request))
        return collection.verdict

    monkeypatch.setattr(job, "_examine", examine)
    printed: list[tuple[object, ...]] = []
    session = object()
    exec(snippet, {"spark": session, "print": lambda *words: printed.append(words)})
    assert asked == [(session, Request(["bussrv-journal"]))]
    assert printed == [(False, collection.verdict.summary["kinds"])]
