"""The audit and ``verify`` give the same answer about every cell of the matrix of tamperings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from bussrv.audit.job import audit
from bussrv.journal.evidence.witnesses import Others
from bussrv.journal.keys import PublicKey
from tests.audit.conftest import Rows, without_patience, without_report
from tests.audit.mutants import INTEGRITY
from tests.inspection.journals import KEY
from tests.tamperings.matrix import CELLS, Cell, judged, write_cells
from tests.tamperings.of_manifests import SUPERSEDED
from tests.tamperings.of_segments import REMOVED

pytestmark = pytest.mark.dear

Found = set[tuple[Any, ...]]


def audited(findings: Rows, cells: Iterable[Path]) -> dict[str, Found]:
    """What the audit found in each journal, by its name, which is that of its server."""
    found: dict[str, Found] = {each.name: set() for each in cells}
    for each in findings:
        file, server = each["file"], (each["server"] or "").removesuffix("-elsewhere")
        name = server if file is None else Path(file).parent.name
        if name in found and each["kind"] in INTEGRITY and each["severity"] != "notice":
            found[name].add(about(each["kind"], each["segment"], each["first_seq"], each["last_seq"]))
    return found


def about(code: str, segment: int | None, *records: int | None) -> tuple[Any, ...]:
    """Which of several seals is the first that does not fit may differ: the audit leaves out superseded ones."""
    return (code, segment) if code == "broken-seal" else (code, segment, *records)


def differences(
    findings: Rows, cells: Mapping[Path, Cell], trusted: PublicKey | None = None, *, of_trees: bool = True
) -> Iterator[tuple[Cell, Found]]:
    """The cells about which the two disagree.

    :param of_trees: whether the audit computed trees of records; otherwise ``verify`` alone names some that are wrong,
        but nothing where the audit finds nothing.
    """
    in_audit = audited(findings, cells)
    for directory, cell in cells.items():
        faults, audit_found = judged(directory, trusted).faults, in_audit[directory.name]
        found = {about(each.code, each.segment, each.seq, each.last_seq) for each in faults}
        differing = found ^ audit_found
        if audit_found and not of_trees:
            differing -= {each for each in found if each[0] == "broken-tree"}
        if differing and not differs(cell):
            yield cell, differing


def differs(cell: Cell) -> bool:
    """Whether the two differ, as the page on tampering says.

    The audit checks superseded seals in the last two segments only. Without a manifest it takes segments before the
    first one as removed.
    """
    is_first = (cell.shape, cell.place) == ("unsealed", "first")
    return cell.kind.name == SUPERSEDED or (cell.kind.name == REMOVED and is_first)


@pytest.mark.parametrize("trusted", [None, KEY.public], ids=["no key", "the key"])
def test_the_embedded_audit_and_verify_agree_in_some_cells(tmp_path: Path, trusted: PublicKey | None) -> None:
    cells = write_cells(tmp_path / "cells", wanted(trusted)[5::61])
    found = embedded(cells, trusted, tmp_path / "out")
    assert list(differences(found, cells, trusted)) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("trusted", [None, KEY.public], ids=["no key", "the key"])
def test_the_embedded_audit_and_verify_agree_in_every_cell(tmp_path: Path, trusted: PublicKey | None) -> None:
    cells = write_cells(tmp_path / "cells", wanted(trusted))
    found = embedded(cells, trusted, tmp_path / "out")
    assert list(differences(found, cells, trusted)) == []


def wanted(trusted: PublicKey | None) -> Sequence[Cell]:
    """With the key, those that have signed seals."""
    return [each for each in CELLS if trusted is None or each.shape in ("signed", "running")]


def embedded(cells: Iterable[Path], trusted: PublicKey | None, out: Path) -> Rows:
    """The findings of the embedded engine, which computes trees of records since somebody outside is asked."""
    with without_patience(), without_report():
        audit(None, [*cells], out, trusted=trusted, others=Others())
    with closing(duckdb.connect()) as connection:
        found = connection.read_parquet(f"{out}/tables/findings/**/*.parquet")
        return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("trusted", [None, KEY.public], ids=["no key", "the key"])
def test_the_audit_and_verify_agree_in_every_cell(
    spark: SparkSession, read_table: Callable[[Path, str], Rows], tmp_path: Path, trusted: PublicKey | None
) -> None:
    """Spark is asked once for all of them, and computes no trees."""
    cells = write_cells(tmp_path / "cells", wanted(trusted))
    with without_report(), without_patience():
        audit(spark, [*cells], tmp_path / "out", trusted=trusted)
    assert list(differences(read_table(tmp_path / "out", "findings"), cells, trusted, of_trees=False)) == []
