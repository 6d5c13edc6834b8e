"""One judge: recovery stops at a finding of verify, and verify reports all that the judge finds."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bussrv.journal import evidence
from bussrv.journal import verify as module
from bussrv.journal.evidence.findings import Finding
from bussrv.journal.recovery import Damaged, recover
from bussrv.journal.scan import Scan
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.journal.verify import verify
from tests.inspection.journals import KEY, House, small_snapshots
from tests.tamperings import fits
from tests.tamperings.catalogue import KINDS as TAMPERINGS
from tests.tamperings.copies import Copy

OF_LINES = (
    "a record dropped", "a record repeated", "a record repeated at the end", "two records swapped",
    "a record moved to the end", "a record moved to another segment", "junk put in", "an empty line put in",
    "a record put in", "the beginning of a record instead of it", "two lines joined", "a line in two", "another moment",
)  # fmt: skip

OF_SEGMENTS = (
    "a segment removed", "a segment emptied", "a segment cut at a line", "the beginning of a line added at the end",
    "the manifest removed", "junk anywhere in the manifest", "the manifest cut anywhere",
    "one of the first entries dropped",
)  # fmt: skip

FITS = (fits.nothing, fits.the_segment, fits.the_rest, fits.everything(None))

KINDS = ("signed", "growing", "chain")


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Journals of three segments, each with a snapshot."""
    base = tmp_path_factory.mktemp("journals")
    for kind in KINDS:
        house = House(
            base / kind,
            key=KEY if kind == "signed" else None,
            seals=kind != "chain",
            policy=UpkeepPolicy(seal_interval=2.0),
            seed=7,
        )
        with small_snapshots(300):
            for _ in range(3):
                house.boot()
                house.go_on(5)
                house.stop() if kind != "growing" else house.close()
        for path in house.directory.iterdir():
            path.chmod(0o640)
    return {kind: base / kind for kind in KINDS}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)


DRAWN = st.tuples(
    st.sampled_from(KINDS),
    st.integers(0, 2),
    st.integers(0, 30),
    st.sampled_from([*OF_LINES, *OF_SEGMENTS]),
    st.sampled_from(FITS),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(drawn=DRAWN)
def test_recovery_and_verify_agree(originals: dict[str, Path], tmp_path: Path, drawn: tuple) -> None:  # type: ignore[type-arg]
    kind, which, index, name, fit = drawn
    place = tmp_path / "journal"
    shutil.rmtree(place, ignore_errors=True)
    copy = Copy(shutil.copytree(originals[kind], place))
    number = copy.numbers[which]
    tamper(copy, number, index, name, fit)
    copy.save()
    faults = {(each.code, each.segment) for each in verify(place).faults}
    scans = [Scan(path).judge for path in copy.paths.values() if path.exists()]
    assert {(each.code, each.segment) for found in scans for each in found.findings} <= faults
    stopped_at = first_finding(place)
    # Recovery knows the numbers of one segment only, and verify those of the whole journal.
    of_numbers = [each for found in scans for each in found.numbers.findings()]
    assert stopped_at is None or (stopped_at.code, stopped_at.segment) in faults or stopped_at in of_numbers
    assert faults or stopped_at is None


def tamper(copy: Copy, number: int, index: int, name: str, fit: fits.Fit) -> None:
    lines = copy.segments[number]
    if name in OF_SEGMENTS:
        TAMPERINGS[name].tamper(copy, number, index % len(lines))
        return
    # A record: these functions know what stands beside one.
    begin = copy.begin(number)
    TAMPERINGS[name].tamper(copy, number, begin + index % (len(lines) - begin))
    fit(copy, number)


def first_finding(directory: Path) -> Finding | None:
    """The finding at which recovery stops."""
    try:
        recover(directory, None)
    except Damaged as error:
        return error.finding
    return None


def test_the_judge_is_pure() -> None:
    """It opens nothing and asks no clock: it imports neither what does, nor Twisted, nor Spark."""
    (place,) = evidence.__path__
    impure = {"os", "io", "time", "pathlib", "gzip", "shutil", "twisted", "pyspark"}
    for path in Path(place).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert impure.isdisjoint(name.partition(".")[0] for name in names), path
