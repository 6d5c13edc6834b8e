"""The formats of bussrv keep every promise that they make, whatever odd input they are sent."""

import pytest

from bussrv.testing.conformance.formats.known import OWN
from bussrv.testing.conformance.judging import PROMISES, judge_one
from tests.forked import ForkedServer
from tests.formats.odd_inputs import adapters
from tests.size import FULL, further
from tests.testing.conformance import lines


@pytest.mark.parametrize("name", OWN)
def test_a_format_keeps_its_promises(name: str) -> None:
    adapter = adapters()[name]
    judged = [judge_one(each, adapter, lines.installed, thorough=FULL) for each in PROMISES if not each.is_real]
    assert [f"{each.promise.name}: {each.sentence}" for each in judged if each.outcome == "broken"] == []
    assert all(each.sentence for each in judged if each.outcome == "not applicable")


@pytest.mark.processes
@pytest.mark.parametrize("name", further(OWN))
def test_a_format_keeps_them_in_a_process_of_its_own(name: str) -> None:
    adapter = adapters()[name]
    judged = [judge_one(each, adapter, start=ForkedServer) for each in PROMISES if each.is_real]
    assert [f"{each.promise.name}: {each.sentence}" for each in judged if each.outcome == "broken"] == []
