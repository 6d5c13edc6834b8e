"""The journals that are made up here are what a server writes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.audit.journals import Writer, barn, day, write_journal
from tests.journal.support import chained


@pytest.mark.parametrize("make", [day, barn])
@pytest.mark.parametrize("cuts", [(), (1,), (4, 5)])
def test_they_are_what_a_server_writes(tmp_path: Path, make, cuts: tuple[int, ...]) -> None:  # type: ignore[no-untyped-def]
    writer: Writer = make()
    bounds = [0, *cuts, len(writer.records)]
    segments = [writer.records[start:end] for start, end in pairwise(bounds)]
    chained(tmp_path / "server", *segments)
    first_seqs = [segment[0].seq for segment in segments]
    made_up = write_journal(tmp_path / "made up", *segments, first_seqs=first_seqs, were_others=False)
    (made_up / "lock").unlink()
    made, written = (
        {path.name: path.read_bytes() for path in directory.iterdir()} for directory in (made_up, tmp_path / "server")
    )
    assert made == written
