"""What the commands that ask a running server have in common."""

from __future__ import annotations

import pytest

from bussrv.cli.asking import age
from tests.cli.conftest import Place, run

pytestmark = pytest.mark.processes


def test_a_port_of_something_else(place: Place) -> None:
    status, _, complained = run("services", "--server", f"127.0.0.1:{place.server.port('objects')}", "--timeout", "0.5")
    assert status in (3, 5)
    assert complained.count("\n") == 1


def test_a_wrong_field_or_command_is_told_the_right_ones(place: Place) -> None:
    assert (
        "sort: there is no field 'nonsense'; there are service, providers, subscribers"
        in run("services", "--sort", "nonsense")[2]
    )
    assert run("sesions")[2] == "bussrv: there is no command 'sesions'; did you mean 'sessions'? (see bussrv --help)\n"
    assert run("journal", "verfy")[2] == (
        "bussrv journal: there is no command 'verfy'; did you mean 'verify'? (see bussrv journal --help)\n"
    )
    assert "did you mean" not in run("quux")[2]


@pytest.mark.parametrize(
    ("passed", "shown"), [(-5, "0 s"), (59, "59 s"), (60, "1 min"), (1_619, "26 min"), (7_199, "1 h"), (200_000, "2 d")]
)
def test_ages(passed: int, shown: str) -> None:
    assert age("2026-11-21T14:02:03.500000Z", 1_795_269_723.5 + passed) == shown
    assert age(None) is None
