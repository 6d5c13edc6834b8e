from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bussrv.spool.spool import IDLE
from tests.spool.support import Scene


@pytest.fixture(autouse=True)
def soon_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spool counts as idle after a tenth of the time. Tests wait for its work of then."""
    monkeypatch.setattr("bussrv.spool.spool.IDLE", IDLE / 10)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    """Makes scenes, and closes their spools in the end."""
    scenes: list[Scene] = []

    def make(*, is_file: bool = True, **settings: Any) -> Scene:
        scenes.append(Scene(tmp_path / "spool" if is_file else None, **settings))
        return scenes[-1]

    yield make
    for each in scenes:
        each.disk.failing.clear()
        if each.spool.unavailable is None or "closed" not in str(each.spool.unavailable):
            each.close()


@pytest.fixture
def scene(made: Callable[..., Scene]) -> Scene:
    return made()
