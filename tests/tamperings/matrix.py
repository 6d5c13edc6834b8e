"""The matrix: each kind of tampering, in the first, a middle and the last segment, in journals of several shapes, left
as it is or made to fit. :mod:`tests.tamperings.page` makes the tables of the docs of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from pathlib import Path
from unittest.mock import patch

from bussrv.journal import verify as verify_module
from bussrv.journal.keys import PrivateKey, PublicKey
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.journal.verify import Report, verify
from bussrv.registry.state.fold import RegistryFold
from tests.inspection.journals import KEY, STRANGER, House
from tests.tamperings.catalogue import MATRIX
from tests.tamperings.copies import Copy
from tests.tamperings.kinds import Kind

SHAPES = ("unsealed", "unsigned", "signed", "running")
"""Without seals; with seals; with signed ones; with signed ones, and an end that is not sealed yet."""

PLACES = ("first", "middle", "last")

ALONE, CHAINED, SEALED = "alone", "chained", "sealed anew"
"""What is made to fit after it: nothing; the chain and headers; the seals too, with another key if there was one."""

NUMBERS = count(1)
"""Of journals: each is named like its server, and no two in one process are named the same."""

_STAMP = re.compile(rb'"seq":(\d+),"time":"([^"]*)"')


@dataclass(frozen=True)
class Cell:
    """One tampering with one journal."""

    kind: Kind
    shape: str
    place: str
    effort: str

    @property
    def column(self) -> str:
        """Where the outcome stands in the table."""
        return f"{self.shape}, {self.effort}"


def cells_of(kind: Kind) -> Iterator[Cell]:
    if kind.is_about_seals:
        yield from (Cell(kind, shape, place, ALONE) for shape in ("unsigned", "signed") for place in PLACES)
        return
    for shape, efforts in (
        ("unsealed", (ALONE, CHAINED)),
        ("unsigned", (ALONE, CHAINED, SEALED)),
        ("signed", (ALONE, CHAINED, SEALED)),
    ):
        tried = efforts[:1] if kind.is_mended else efforts
        yield from (Cell(kind, shape, place, effort) for effort in tried for place in PLACES)
    yield from (Cell(kind, "running", "last", effort) for effort in (ALONE, CHAINED) if effort in tried)


CELLS = [cell for kind in MATRIX for cell in cells_of(kind)]


def write_journal(directory: Path, shape: str) -> Path:
    """A journal of four segments, named like its server, each but the first with a snapshot of several parts."""
    house = House(
        directory,
        key=KEY if shape in ("signed", "running") else None,
        seals=shape != "unsealed",
        policy=UpkeepPolicy(seal_interval=2.0),
        seed=7,
        server=directory.name,
    )
    house.live_three_boots(unsealed=6 if shape == "running" else 0)
    for path in directory.iterdir():
        path.chmod(0o640)
    return directory


def write_cell(root: Path, cell: Cell) -> Path | None:
    """The journal that somebody tampered with; ``None``: there is nothing of that kind to do."""
    root.mkdir(exist_ok=True)
    directory = write_journal(root / f"cell{next(NUMBERS)}", cell.shape)
    copy = Copy(directory)
    number = {"first": copy.numbers[0], "middle": copy.numbers[2], "last": copy.numbers[-1]}[cell.place]
    index = (copy.begin(number) + len(copy.segments[number])) // 2
    if cell.shape == "running":
        index = len(copy.segments[number]) - 3
    before = ({each: [*lines] for each, lines in copy.segments.items()}, [*copy.manifest])
    cell.kind.tamper(copy, number, index)
    if (copy.segments, copy.manifest) == before:
        return None
    if cell.effort != ALONE:
        _make_fit(copy, cell)
    if (copy.segments, copy.manifest) == before:
        return None
    copy.save()
    return directory


def _make_fit(copy: Copy, cell: Cell) -> None:
    empty = {number: copy.segments.pop(number) for number in copy.numbers if not copy.segments[number]}
    if cell.effort == SEALED:
        copy.without_seals()
    copy.chain_from(copy.numbers[0])
    copy.segments |= empty
    if cell.effort == SEALED:
        _seal_anew(copy, STRANGER if cell.shape == "signed" else None)


def _seal_anew(copy: Copy, signer: PrivateKey | None) -> None:
    """A manifest of closing seals that fit the segments."""
    copy.manifest = []
    server = {"server": copy.directory.name}
    if signer is not None:
        copy.add_entry(signer, kind="key", public=signer.public.text, **server)
    for number in copy.numbers:
        copy.add_entry(signer, **_closing_seal(copy, number), **server)


def _closing_seal(copy: Copy, number: int) -> dict[str, object]:
    lines = copy.segments[number]
    found = [_STAMP.search(line) for line in lines]
    stamps = [(int(each[1]), each[2].decode()) for each in found if each] or [(number, "2027-01-15T09:00:00.000000Z")]
    first, last = min(stamps), max(stamps)
    data = b"".join(lines)
    return {
        "kind": "seal", "segment": number, "closed": True, "bytes": len(data), "digest": sha256(data).hexdigest(),
        "records": last[0] - first[0] + 1, "first_seq": first[0], "last_seq": last[0],
        "first_time": first[1], "last_time": last[1],
    }  # fmt: skip


def write_cells(root: Path, cells: Iterable[Cell]) -> dict[Path, Cell]:
    """The journals of some cells, as far as there is something to do."""
    written = [(write_cell(root, cell), cell) for cell in cells]
    return {directory: cell for directory, cell in written if directory is not None}


def judged(directory: Path, trusted: PublicKey | None = None) -> Report:
    """What ``verify`` finds. Nobody is about to seal anything here."""
    with patch.object(verify_module, "PATIENCE", 0.0):
        return verify(directory, trusted, registry=RegistryFold)


def codes(report: Report) -> list[str]:
    """The codes of the findings, each once."""
    return sorted({fault.code for fault in report.faults})
