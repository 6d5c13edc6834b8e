"""``bussrv request`` that is refused, or that nobody answers."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Place, run

pytestmark = pytest.mark.processes


def test_nobody_and_refusals(place: Place) -> None:
    asked = f"127.0.0.1:{place.server.port('objects')}"
    said = f"bussrv request: nobody provides the service 'nothing' (no-such-service); asked {asked}\n"
    assert run("request", "nothing") == (1, "", said)
    status, _, complained = run("pub", "bus/clock", "12:00")
    assert (status, complained.count("\n")) == (2, 1)
    assert complained.startswith("bussrv pub: ")
