"""The kit fails broken plugins, and says in one sentence what is wrong."""

from bussrv.testing.conformance.judging import PROMISES, judge_one
from tests.tables import each_row
from tests.testing.conformance import lines
from tests.testing.conformance.broken import FAULTS, Fault, module_with

BY_NAME = {each.name: each for each in PROMISES}


@each_row("fault", FAULTS, ids=[each.name for each in FAULTS])
def test_a_broken_plugin_is_failed_in_one_sentence(fault: Fault) -> None:
    verdict = judge_one(BY_NAME[fault.promise], lines.adapter(), lines.finding(module_with(fault)))
    assert verdict.outcome == "broken"
    assert fault.words in verdict.sentence
    assert "\n" not in verdict.sentence
    assert "the trial cannot go on" not in verdict.sentence


def test_there_are_enough_of_them_for_most_promises() -> None:
    assert len(FAULTS) >= 25
    assert len({(each.old, each.new) for each in FAULTS}) >= 25


def test_without_a_fault_it_passes() -> None:
    verdicts = [judge_one(each, lines.adapter(), lines.finding(lines.fresh())) for each in PROMISES if not each.is_real]
    assert [each.sentence for each in verdicts if each.outcome == "broken"] == []
    assert sum(each.outcome == "kept" for each in verdicts) > 40
