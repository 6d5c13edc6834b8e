from __future__ import annotations

import pytest

from tests.mutation import listed
from tests.mutation.operators import Mutant, mutants, mutated

MODULE = '''
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    TOO_MANY = 3

LIMIT: int | None = 8

class Gate:
    """Text is left alone: 7."""

    def opens(self, number: int) -> bool:
        self.log.info("asked", number=1)
        self.count()
        if self.locked:
            return None
        return number < LIMIT and not (
            self.broken
        )
'''

CHANGES = """\
:constant:0 8 => 9
Gate.opens:call:0 self.count() => pass
Gate.opens:condition:0 self.locked => not self.locked
Gate.opens:return:0 return number < LIMIT and not ( self.broken ) => return None
Gate.opens:boolean:0 number < LIMIT and not ( self.broken ) => number < LIMIT or not self.broken
Gate.opens:comparison:0 number < LIMIT => number <= LIMIT
Gate.opens:boolean:1 not ( self.broken ) => self.broken
"""


def test_each_operator_applies_where_it_says() -> None:
    found = [f"{mutant.name} {mutant.was} => {mutant.becomes}" for mutant, _ in mutants("gate", MODULE)]
    assert found == [f"gate:{line}" for line in CHANGES.splitlines()]


def test_a_mutant_differs_in_that_place_only() -> None:
    for mutant, place in mutants("", MODULE):
        before, after = MODULE.splitlines(), mutated(MODULE, mutant, place).splitlines()
        compile("\n".join(after), "", "exec")
        different = [number for number, lines in enumerate(zip(before, after, strict=True), 1) if lines[0] != lines[1]]
        assert different
        assert place.first_line <= min(different) <= max(different) <= place.last_line


@pytest.mark.parametrize(
    ("path", "source", "found_as"),
    [
        ("a.py", MODULE, ("a.py", "Gate.opens", 0)),
        ("renamed.py", MODULE, ("renamed.py", "Gate.opens", 0)),
        ("a.py", MODULE.replace("Gate", "Door"), ("a.py", "Door.opens", 0)),
        ("a.py", MODULE.replace("number < LIMIT", "number < 4"), None),
        ("b.py", MODULE.replace("Gate", "Door"), None),
    ],
)
def test_a_listed_mutant_is_found_where_it_went(path: str, source: str, found_as: object) -> None:
    mutant = Mutant("a.py", "Gate.opens", "comparison", 0, "number < LIMIT", "number <= LIMIT")
    found = listed.find([mutant], dict(mutants(path, source)))[mutant]
    assert (found and (found.path, found.function, found.occurrence)) == found_as


def test_shares_add_up_and_keep_the_proportion() -> None:
    assert listed.shares({"a": 60, "b": 30, "c": 9, "d": 1}, 10) == {"a": 6, "b": 3, "c": 1, "d": 0}


def test_the_list_is_whole() -> None:
    names = [mutant.name for mutant in listed.read()]
    assert len(set(names)) == listed.NUMBER
