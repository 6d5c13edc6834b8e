"""The pages about servers inside programs and in memory: their programs and tests are run as written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from bussrv.testing import memory
from bussrv.testing.fixtures import bus_server, make_bus_server
from bussrv.testing.reactor import MemoryReactor
from tests.docs.pages import blocks

__all__ = ["bus_server", "make_bus_server"]

CONFTEST, *TESTS = blocks("docs/how-to/test-in-memory.md", "python")

# The tests of the page are tests of this module.
for each in TESTS:
    exec(each, globals())


@pytest.fixture(autouse=True, scope="module")
def lines_format() -> Iterator[None]:
    """The module that an author has in a file."""
    module = sys.modules["lines_format"] = ModuleType("lines_format")
    exec(blocks("docs/how-to/plugins.md", "python")[0], module.__dict__)
    yield
    del sys.modules["lines_format"]


def test_the_page_names_where_the_fixtures_are() -> None:
    module: dict[str, Any] = {}
    exec(CONFTEST, module)
    assert module["pytest_plugins"] == [make_bus_server.__module__]
    assert sum(name.startswith("test_") for name in globals()) >= 8


def test_the_service_of_the_page_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    made, used = blocks("docs/how-to/embed.md", "python")
    module: dict[str, Any] = {}
    reactor = MemoryReactor()
    monkeypatch.setattr("twisted.internet.reactor", reactor)
    monkeypatch.setattr("bussrv.embedding.service.make_service", memory.make_service)
    exec(made, module)
    bus = module["bus"]
    bus.startService()
    said: list[Any] = []
    exec(used, module)
    module["print"] = lambda *words: said.append(words)
    outcome: list[bytes] = []
    Deferred.fromCoroutine(module["run"](bus)).addBoth(outcome.append)
    reactor.advance()
    assert outcome == [b"3.20"]
    assert said == [("ordered:", "tea")]
    assert bus.addresses.keys() == {"mqtt", "admin"}
    stopped = bus.stopService()
    reactor.advance()
    assert stopped.called
    assert [str(error) for words, *error in said if words == "no more orders:"]
