"""Fixtures for pytest. A ``conftest.py`` has them with ``pytest_plugins = ["bussrv.testing.fixtures"]``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from bussrv.testing.memory import MemoryServer


@pytest.fixture
def make_bus_server() -> Iterator[Callable[..., MemoryServer]]:
    """Makes servers in memory, with the arguments of :class:`bussrv.testing.memory.MemoryServer`. The end of the test
    stops them.
    """
    with ExitStack() as stack:

        def make(*arguments: Any, **named: Any) -> MemoryServer:
            return stack.enter_context(MemoryServer(*arguments, **named))

        yield make


@pytest.fixture
def bus_server(make_bus_server: Callable[..., MemoryServer]) -> MemoryServer:
    """A server in memory with the default settings."""
    return make_bus_server()
