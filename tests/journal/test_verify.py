"""Verifying: journals in which nothing is wrong, and journals in which something is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bussrv.journal.verify import Report, verify
from tests.inspection.journals import KEY, clean_journal


@pytest.mark.parametrize("chunk", range(20))
def test_no_false_alarm(tmp_path: Path, chunk: int) -> None:
    for seed in range(chunk * 12, chunk * 12 + 12):
        house = clean_journal(tmp_path / str(seed), seed)
        trusted = None if house.key is None else KEY.public
        report = verify(house.directory, trusted)
        assert (seed, report.faults) == (seed, [])
        assert report.last_seq == house.records[-1].seq
        copy = shutil.copytree(house.directory, tmp_path / f"copy-{seed}")
        assert verify(copy, trusted) == report
