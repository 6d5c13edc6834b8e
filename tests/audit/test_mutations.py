"""Whatever is done to a journal is named, by segment and seq; what nobody touched is found clean."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from bussrv.audit.kinds import KINDS
from bussrv.journal import verify as verify_module
from bussrv.journal.evidence.findings import Finding
from bussrv.journal.recovery import Damaged, recover
from bussrv.journal.verify import verify
from bussrv.registry.state.fold import RegistryFold
from tests.audit.conftest import CLEAN, Collection, Rows
from tests.audit.mutants import INTEGRITY, SHAPES, Mutant, Mutation, Named
from tests.audit.mutations import MUTATIONS, TRIED

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module", autouse=True)
def impatient() -> Any:
    """Nobody is about to seal anything here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify_module, "PATIENCE", 0.0)
        yield


def by_journal(findings: Rows, journals: dict[str, Path]) -> dict[str, Rows]:
    """The findings about each journal, by its name, which is that of its server."""
    by_place = {f"{path}/": name for name, path in journals.items()}
    found: dict[str, Rows] = {name: [] for name in journals}
    for each in findings:
        name = next(
            (name for place, name in by_place.items() if (each["file"] or "").startswith(place)), each["server"]
        )
        found.setdefault(name, []).append(each)
    return found


@pytest.fixture(scope="module")
def mutants(collection: Collection) -> dict[str, Mutant]:
    return collection.mutants


@pytest.fixture(scope="module")
def found_in(collection: Collection) -> dict[str, Rows]:
    """What was found in each journal that was tampered with, and in each of the same shapes that was not."""
    mutants = {name: mutant.directory for name, mutant in collection.mutants.items()}
    return by_journal(collection.findings, {**mutants, **collection.untouched})


@pytest.mark.parametrize("mutation", TRIED, ids=lambda each: each.name)
def test_what_is_done_to_a_journal_is_named(
    found_in: dict[str, Rows], mutants: dict[str, Mutant], mutation: Mutation
) -> None:
    outcome = mutants[mutation.name].outcome
    found = [each for each in found_in[mutation.name] if each["kind"] in INTEGRITY]
    for wanted in outcome.named:
        assert any(names(each, wanted) for each in found), (wanted, found)
    for each in found:
        assert each["segment"] is None or each["segment"] in outcome.beside, (outcome, each)
    if not outcome.named:
        assert all(KINDS[each["kind"]] == "notice" for each in found), found


def names(finding: dict[str, Any], wanted: Named) -> bool:
    """Whether it is a finding of that kind, about that segment, and about these records or those next to them."""
    if finding["kind"] not in wanted.kinds or wanted.segment not in (None, finding["segment"]):
        return False
    if wanted.first is None:
        return True
    first, last = finding["first_seq"], finding["last_seq"]
    first, last = (last if first is None else first), (first if last is None else last)
    return first is not None and wanted.first - 1 <= min(first, last) <= max(first, last) <= (wanted.last or last) + 1


def test_what_is_named_are_ranges(found_in: dict[str, Rows]) -> None:
    found = [each for findings in found_in.values() for each in findings]
    assert [each for each in found if (each["first_seq"] or 0) > (each["last_seq"] or each["first_seq"] or 0)] == []


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_beside_it_is_clean(found_in: dict[str, Rows], shape: str) -> None:
    assert found_in[f"untouched-{shape}"] == []


def test_what_is_harmless_leads_to_no_finding_at_all(found_in: dict[str, Rows]) -> None:
    harmless = [each.name for each in TRIED if each.is_harmless]
    worse = [each for name in harmless for each in found_in[name] if each["severity"] != "notice"]
    assert harmless
    assert worse == []


@pytest.mark.parametrize("mutation", TRIED, ids=lambda each: each.name)
def test_verify_finds_the_same(found_in: dict[str, Rows], mutants: dict[str, Mutant], mutation: Mutation) -> None:
    """The same codes, segments and records: there is one judge. Which seal is the first that does not fit may differ,
    since the audit leaves out superseded seals of older segments.
    """
    audited = {
        about(each["kind"], each["segment"], each["first_seq"], each["last_seq"])
        for name in (mutation.name, f"{mutation.name}-stranger")
        for each in found_in.get(name, [])
        if each["kind"] in INTEGRITY and each["severity"] != "notice"
    }
    faults = verify(mutants[mutation.name].directory, registry=RegistryFold).faults
    assert {about(each.code, each.segment, each.seq, each.last_seq) for each in faults} == audited
    assert bool(faults) == bool(mutants[mutation.name].outcome.named)


def about(code: str, segment: int | None, *records: int | None) -> tuple[object, ...]:
    return (code, segment) if code == "broken-seal" else (code, segment, *records)


@pytest.mark.parametrize("mutation", TRIED, ids=lambda each: each.name)
def test_recovery_stops_at_one_of_these(mutants: dict[str, Mutant], mutation: Mutation, tmp_path: Path) -> None:
    copy = shutil.copytree(mutants[mutation.name].directory, tmp_path / "journal")
    faults = {(each.code, each.segment) for each in verify(copy, registry=RegistryFold).faults}
    stopped_at = first_finding(copy)
    assert stopped_at is None or (stopped_at.code, stopped_at.segment) in faults


def first_finding(directory: Path) -> Finding | None:
    """The finding at which recovery stops."""
    try:
        recover(directory, None)
    except Damaged as error:
        return error.finding
    return None


def test_there_are_enough_kinds() -> None:
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS)
    assert sum(not each.is_harmless for each in MUTATIONS) >= 100


def test_no_false_alarm(collection: Collection) -> None:
    assert len(collection.clean) == CLEAN
    alarms = {
        name: [
            (each["kind"], each["segment"], each["first_seq"], each["message"])
            for each in found
            if each["severity"] != "notice"
        ]
        for name, found in by_journal(collection.findings, collection.clean).items()
        if name in collection.clean
    }
    assert {name: found for name, found in alarms.items() if found} == {}


def test_more_journals_take_no_more_jobs(collection: Collection) -> None:
    """One for all stripes, and one for their borders. Stripes that overlap take some more."""
    assert 2 <= collection.jobs <= 8
