"""``bussrv journal``, run in the process of the test."""

from __future__ import annotations

import pytest

from bussrv.cli.main import main


class Shell:
    """Runs ``bussrv journal`` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, *arguments: object) -> tuple[int, str, str]:
        status = main(["journal", *map(str, arguments)])
        return (status, *self._capsys.readouterr())

    def wrong(self, *arguments: object) -> str:
        """What it says of a wrong command line."""
        assert main(["journal", *map(str, arguments)]) == 2
        return self._capsys.readouterr().err
