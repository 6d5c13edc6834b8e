"""Tables of cases are gone through to the end, and every row that fails is named."""

from __future__ import annotations

import inspect

import pytest

from tests.tables import check_each, each_row


def test_every_row_is_checked_and_those_that_fail_are_named() -> None:
    seen = []

    def check(row: int) -> None:
        seen.append(row)
        if row == 2:
            raise ValueError("no twos")
        if row == 3:
            pytest.fail("no threes")

    with pytest.raises(pytest.fail.Exception) as caught:
        check_each([("one", 1), ("two", 2), ("three", 3), ("four", 4)], check)
    assert seen == [1, 2, 3, 4]
    said = str(caught.value)
    assert said.startswith("2 of 4 rows fail:\ntwo:\n")
    assert "ValueError: no twos" in said
    assert "\nthree:\n" in said
    assert "no threes" in said


@pytest.mark.parametrize("rows", [[], [("a", 1), ("a", 2)]])
def test_a_table_without_rows_or_with_a_name_twice_is_no_table(rows: list[tuple[str, int]]) -> None:
    with pytest.raises(AssertionError):
        check_each(rows, lambda _: None)


def test_tables_are_combined_and_leave_fixtures_to_pytest() -> None:
    seen = []

    @each_row("letter", [pytest.param("a", id="first"), "b"])
    @each_row(("number", "word"), [(1, "one"), (2, "two")], ids=["I", "II"])
    def test(fixture: str, letter: str, number: int, word: str) -> None:
        """What is said of it."""
        seen.append((fixture, letter, number, word))
        assert (letter, number) != ("a", 2)

    assert (test.__name__, test.__doc__) == ("test", "What is said of it.")
    assert list(inspect.signature(test).parameters) == ["fixture"]
    with pytest.raises(pytest.fail.Exception, match=r"^1 of 2 rows fail:\n0 first:\n(.|\n)*\n1 II:\n"):
        test(fixture="f")
    assert seen == [("f", letter, *rest) for letter in "ab" for rest in ((1, "one"), (2, "two"))]
