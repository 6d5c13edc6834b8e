"""The kit fails broken plugins, and says in one sentence what is wrong."""

from pathlib import Path

import pytest

from bussrv.testing.conformance.formats.known import adapter_of
from bussrv.testing.conformance.judging import PROMISES, Verdict, judge_one
from tests.size import further
from tests.tables import each_row
from tests.testing.conformance import broken_exchanges, broken_globs, broken_machine, lines
from tests.testing.conformance.broken import FAULTS, Fault, module_with

PATIENCE = 5.0

BY_NAME = {each.name: each for each in PROMISES}


def check_sentence(verdict: Verdict, words: str) -> None:
    assert verdict.outcome == "broken"
    assert words in verdict.sentence
    assert "\n" not in verdict.sentence
    assert "the trial cannot go on" not in verdict.sentence


@pytest.mark.dear
@each_row("fault", FAULTS, ids=[each.name for each in FAULTS])
def test_a_broken_plugin_is_failed_in_one_sentence(fault: Fault) -> None:
    check_sentence(judge_one(BY_NAME[fault.promise], lines.adapter(), lines.finding(module_with(fault))), fault.words)


@each_row("fault", broken_exchanges.FAULTS, ids=[each.name for each in broken_exchanges.FAULTS])
def test_so_is_one_with_requests_patterns_or_unsubscriptions(fault: broken_exchanges.Fault) -> None:
    check_sentence(
        judge_one(BY_NAME[fault.promise], adapter_of(fault.format), broken_exchanges.finding(fault)), fault.words
    )


@each_row("fault", broken_globs.FAULTS, ids=[each.name for each in broken_globs.FAULTS])
def test_so_is_one_with_patterns_of_its_own(fault: broken_globs.Fault) -> None:
    check_sentence(judge_one(BY_NAME[fault.promise], broken_globs.adapter(), broken_globs.finding(fault)), fault.words)


def test_the_patterns_of_the_page_are_kept_apart() -> None:
    adapter, found = broken_globs.adapter(), broken_globs.finding(broken_globs.SOUND)
    verdict = judge_one(BY_NAME["finer-patterns-are-kept-apart"], adapter, found)
    assert (verdict.outcome, verdict.sentence) == ("kept", "")


@pytest.mark.dear
def test_a_format_may_forbid_subscribers_to_publish() -> None:
    """Who publishes although it is subscribed makes the server count an error here: no promise may do so."""
    (fault,) = (each for each in FAULTS if each.name == "whoever is subscribed may not publish")
    module, adapter = module_with(fault._replace(new=fault.new.replace("Refused(", "OSError("))), lines.adapter()
    adapter.absent = {**adapter.absent, "mixed": "Somebody who is subscribed may not publish."}  # type: ignore[misc]
    judged = [
        judge_one(each, adapter, lines.finding(module))
        for each in PROMISES
        if "publish" in each.needs or each.judge.__module__.endswith("framing")
        if not each.is_real
    ]
    assert [each.sentence for each in judged if each.outcome == "broken"] == []
    assert BY_NAME["later-input-waits"] in [each.promise for each in judged if each.outcome == "kept"]


@pytest.mark.processes
@pytest.mark.parametrize("fault", further(broken_machine.FAULTS, 2), ids=lambda fault: fault.name)
def test_so_is_one_whose_fault_only_a_process_shows(fault: Fault, tmp_path: Path) -> None:
    start = broken_machine.starting(fault, tmp_path)
    check_sentence(judge_one(BY_NAME[fault.promise], lines.adapter(), start=start, patience=PATIENCE), fault.words)


def test_no_promise_is_without_a_plugin_that_breaks_it() -> None:
    tables = (FAULTS, broken_exchanges.FAULTS, broken_globs.FAULTS, broken_machine.FAULTS)
    assert {each.promise for table in tables for each in table} == BY_NAME.keys()


@pytest.mark.dear
def test_without_a_fault_it_passes() -> None:
    verdicts = [judge_one(each, lines.adapter(), lines.finding(lines.fresh())) for each in PROMISES if not each.is_real]
    assert [each.sentence for each in verdicts if each.outcome == "broken"] == []
    assert sum(each.outcome == "kept" for each in verdicts) > 40
