from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bussrv.testing.server import RunningServer
from tests.forked import ForkedServer

Start = Callable[..., RunningServer]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def start(servers: ExitStack, journal: Path) -> Start:
    """Starts servers, one after the other, on the same journal."""
    return lambda *options, **environment: servers.enter_context(ForkedServer(journal, options, environment))


@pytest.fixture
def launch(servers: ExitStack, journal: Path) -> Start:
    """As ``start``, but by the command that a user gives."""
    return lambda *options, **environment: servers.enter_context(RunningServer(journal, options, environment))
