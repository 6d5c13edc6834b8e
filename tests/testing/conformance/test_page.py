"""The page of the kit: its tables are those of the kit, and its code works."""

from typing import Any

import pytest

from bussrv.cli.main import main
from docs._ext import conformance_table
from tests.docs.commands import examples
from tests.docs.pages import blocks, page

NAME = "docs/reference/conformance.md"


def test_the_tables_are_those_of_the_kit() -> None:
    assert conformance_table.page(page(NAME)) == page(NAME)


def test_the_loop_on_the_page_judges_a_format(capsys: pytest.CaptureFixture[str]) -> None:
    *_, source = blocks(NAME, "python")
    scope: dict[str, Any] = {}
    exec(source.replace("PROMISES:", "PROMISES[:2]:"), scope)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["kept"] * 2


def test_the_command_on_the_page_says_that(capsys: pytest.CaptureFixture[str]) -> None:
    ((command, said),) = examples(NAME)
    assert main(command.split()) == 0
    assert capsys.readouterr().out == said
