from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bussrv.testing.server import RunningServer

Start = Callable[..., RunningServer]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def start(journal: Path) -> Iterator[Start]:
    """Starts servers, one after the other, on the same journal."""
    with ExitStack() as servers:

        def start_server(*options: str, **environment: str) -> RunningServer:
            return servers.enter_context(RunningServer(journal, options, environment))

        yield start_server
