"""Standard error while a daemon starts."""

import sys

import pytest

from bussrv.server.running.twistd import KeptStandardError

CUT = "An error has occurred: b'bussrv.server.configuration.options.StartError: --auth: cannot re'\nPlease look.\n"
OTHER = "An error has occurred: b'builtins.ValueError: a bug'\nPlease look at log file for more information.\n"


def test_only_what_the_server_has_said_itself_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    before = sys.__stderr__
    kept = KeptStandardError()
    try:
        assert sys.__stderr__ is kept
        for each in (CUT, OTHER, "bussrv: StartError\n"):
            assert kept.write(each) == len(each)
    finally:
        kept.close()
    assert sys.__stderr__ is before
    assert capfd.readouterr().err == f"{OTHER}bussrv: StartError\n"
