"""One broker for the tests of a module; each test has topics of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked import ForkedServer
from tests.uplink.kafka.broker import Broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker") / "log") as found:
        yield found


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """The directory for a journal."""
    directory = tmp_path / "journal"
    directory.mkdir()
    return directory


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedServer]:
    with ForkedServer(tmp_path_factory.mktemp("server") / "journal") as found:
        yield found
