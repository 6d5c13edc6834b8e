"""Which tests execute which lines: a pytest plugin that writes it down, and one that runs only those.

``MUTATION_MAP`` in the environment is the database of coverage.py that is written; each test is a context in it, and
how long the tests took is in a file beside it. ``MUTATION_TESTS`` is a file of node ids: only those run, in that order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MAP = os.environ.get("MUTATION_MAP")
TESTS = os.environ.get("MUTATION_TESTS")


class Recording:
    """Measures the whole session, and gives each test a context from its set-up to its end."""

    def __init__(self, path: str) -> None:
        import coverage

        self.path = path
        self.seconds: dict[str, float] = {}
        self.coverage = coverage.Coverage(data_file=path, include=["bussrv/*"], check_preimported=True)
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        Path(self.path + ".json").write_text(json.dumps(self.seconds), encoding="utf-8")


class Chosen:
    """Runs the tests of a list in the order of the list, and leaves out all others."""

    def __init__(self, path: str) -> None:
        names = Path(path).read_text(encoding="utf-8").splitlines()
        self.order = {name: number for number, name in enumerate(names)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept = sorted((item for item in items if item.nodeid in self.order), key=lambda item: self.order[item.nodeid])
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in self.order])
        items[:] = kept


def pytest_configure(config: Any) -> None:
    if MAP:
        config.pluginmanager.register(Recording(MAP))
    if TESTS:
        config.pluginmanager.register(Chosen(TESTS))
