"""Tables on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from bussrv.cli.show import output


@pytest.mark.parametrize("width", [80, 160])
def test_the_long_name_of_one_client_hides_no_columns(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr(output, "console", lambda: console)
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    rows = [("5f1c2ab94e07.3", "spp", "ann", "127.0.0.1:40000"), ("s" * 200, "spp", "\x1b[31m" + "x" * 200, "local")]
    output.table(("SESSION", "FORMAT", "USER", "PEER"), rows[:1] + rows[:1], less=("USER", "PEER"))
    output.table(("SESSION", "FORMAT", "USER", "PEER"), rows, less=("USER", "PEER"))
    said = console.file.getvalue().splitlines()
    assert [line.split() for line in said[:2]] == [["SESSION", "FORMAT", "USER", "PEER"], list(rows[0])]
    assert max(map(len, said)) <= width
    assert "\x1b" not in "".join(said)
    if width == 160:
        assert "Not shown" not in "".join(said)
        assert said[4].split() == list(rows[0])
        assert said[5].split()[0] == "s" * 39 + "…"
    else:
        # At first columns that this terminal has no room for even when all names are short.
        assert said[3].split() == ["SESSION", "FORMAT", "USER"]
