"""The notebook runs, and its answers are those that stand in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.notebook import QUESTIONS, answers, read, stored


@pytest.mark.dear
def test_the_answers_are_those_of_the_notebook(tmp_path: Path) -> None:
    notebook = read(QUESTIONS)
    assert [*answers(notebook, tmp_path)] == stored(notebook)
    # A helper, and an answer to each question.
    assert [bool(text) for text in stored(notebook)] == [False, *[True] * 6]
