"""The table of ``docs/reference/audit/tampering.md``, made of the outcomes of the matrix.

``PYTHONPATH=. python -m tests.tamperings.page`` judges the whole matrix with ``verify``, and writes the outcomes and
the table.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.tamperings import of_manifests
from tests.tamperings.catalogue import MATRIX
from tests.tamperings.kinds import Kind
from tests.tamperings.matrix import CELLS, PLACES, codes, judged, write_cell
from tests.tamperings.of_lines import SAID, STANDS, WRITTEN
from tests.tamperings.of_segments import HEADERS, SEGMENTS, SNAPSHOTS

OUTCOMES = Path(__file__).parents[1] / "vectors" / "tamperings.json"

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "audit" / "tampering.md"

MARK = "<!-- The tables are written by `python -m tests.tamperings.page`. -->\n"

Outcomes = Mapping[str, Mapping[str, Mapping[str, Sequence[str] | None]]]
"""The codes that are found, by kind, column and place; ``None``: there is nothing of that kind to do there."""

_GROUPS = {
    "What a line says": SAID,
    "How a line is written": WRITTEN,
    "Where a line stands": STANDS,
    "The snapshot": SNAPSHOTS,
    "The header": HEADERS,
    "The segment": SEGMENTS,
}

_COLUMNS = {
    "no seals": ("unsealed, alone",),
    "no seals, chain made to fit": ("unsealed, chained",),
    "seals": ("unsigned, alone", "unsigned, chained", "signed, alone", "signed, chained"),
    "seals without a key, made anew": ("unsigned, sealed anew",),
    "end that is not sealed yet, chain made to fit": ("running, chained",),
}

_SEALS_COLUMNS = {"seals without a key": ("unsigned, alone",), "seals with a key": ("signed, alone",)}

# From the one that says most.
_ORDER = (
    "unreadable-segment", "bad-line", "broken-snapshot", "broken-chain", "journal-salvaged", "seq-duplicate", "seq-gap",
    "segment-missing", "broken-link", "broken-seal", "bad-manifest",
)  # fmt: skip

_MOST_CODES = 2


def outcomes() -> Outcomes:
    """What ``verify`` finds in each cell."""
    found: dict[str, dict[str, dict[str, list[str] | None]]] = {}
    with tempfile.TemporaryDirectory() as root:
        for cell in CELLS:
            directory = write_cell(Path(root), cell)
            row = found.setdefault(cell.kind.name, {}).setdefault(cell.column, {})
            row[cell.place] = None if directory is None else codes(judged(directory))
    return found


def tables(found: Outcomes) -> str:
    """The tables of the page."""
    text = [_table(title, kinds, _COLUMNS, found) for title, kinds in _GROUPS.items()]
    return "\n".join([*text, _table("The manifest", of_manifests.KINDS, _SEALS_COLUMNS, found)])


def _table(title: str, kinds: Sequence[Kind], columns: Mapping[str, Sequence[str]], found: Outcomes) -> str:
    rows = [f"## {title}", "", f"| tampering | {' | '.join(columns)} | why |", "|---" * (len(columns) + 2) + "|"]
    for kind in kinds:
        cells = [_cell([found[kind.name].get(each, {}) for each in names]) for names in columns.values()]
        rows.append(f"| {kind.name} | {' | '.join(cells)} | {kind.why} |")
    return "\n".join(rows) + "\n"


def _cell(rows: Sequence[Mapping[str, Sequence[str] | None]]) -> str:
    said = [(place, each) for row in rows for place, each in row.items() if each is not None]
    if not said:
        return "–"
    missed = [place for place in PLACES if any(place == each and not codes for each, codes in said)]
    there = {code for _, each in said for code in each}
    if not there:
        return "**nobody**"
    shown = ", ".join(f"`{code}`" for code in _ORDER if code in there and code in _most_telling(there))
    return shown + (f"; **nobody** in the {' or '.join(missed)} segment" if missed else "")


def _most_telling(there: set[str]) -> list[str]:
    return [code for code in _ORDER if code in there][:_MOST_CODES]


def with_tables(page: str, found: Outcomes) -> str:
    """The page with its tables made anew."""
    return page[: page.index(MARK)] + MARK + "\n" + tables(found)


def main() -> None:
    found = outcomes()
    assert {*found} == {kind.name for kind in MATRIX}
    OUTCOMES.write_text(json.dumps(found, indent=0, separators=(",", ":")) + "\n")
    PAGE.write_text(with_tables(PAGE.read_text(), found))
    sys.stdout.write(f"written: {OUTCOMES}, {PAGE}\n")


if __name__ == "__main__":
    main()
