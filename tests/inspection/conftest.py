"""The command, ready to be run."""

import pytest

from tests.inspection.shell import Shell


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)
