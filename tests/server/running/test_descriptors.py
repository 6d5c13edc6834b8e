"""How many sessions the system has file descriptors for."""

import resource
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.server.running import process
from bussrv.server.running.process import (
    RESERVE,
    fitting,
    most_connections,
    most_sessions,
    raise_limit,
    warn_of_fewer,
)
from bussrv.settings import Settings


@given(st.integers(1, 100_000), st.integers(1, 200_000))
def test_something_is_left_for_the_rest_for_any_system_limit(wanted: int, limit: int) -> None:
    sessions, connections = most_sessions(wanted, limit), most_connections(limit)
    assert 1 <= sessions <= wanted
    assert sessions <= connections <= max(1, limit)
    if limit >= 2 * RESERVE:
        assert sessions == min(wanted, limit - RESERVE)
        assert connections <= limit - RESERVE // 2


INFINITY = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "wanted", "expected", "set_to"),
    [
        ((1024, 4096), 500, 1024, None),
        ((1024, 4096), 2000, 2000 + RESERVE, (2000 + RESERVE, 4096)),
        ((1024, 4096), 50_000, 4096, (4096, 4096)),
        ((1024, INFINITY), 2000, 2000 + RESERVE, (2000 + RESERVE, INFINITY)),
        ((INFINITY, INFINITY), 2000, 2000 + RESERVE, None),
    ],
)
def test_the_limit_is_raised_as_far_as_is_needed_and_allowed(
    monkeypatch: pytest.MonkeyPatch,
    limits: tuple[int, int],
    wanted: int,
    expected: int,
    set_to: tuple[int, int] | None,
) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(process.resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(process.resource, "setrlimit", lambda _, pair: given.append(pair))
    assert raise_limit(wanted) == expected
    assert given == ([] if set_to is None else [set_to])


def test_the_log_says_once_that_there_may_be_fewer_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(process, "raise_limit", lambda _: 1024)
    monkeypatch.setattr(process.log, "warn", lambda text, **_: said.append(text))
    wanted = replace(Settings(), max_sessions=50_000)
    fits = fitting(wanted)
    assert fits.settings.max_sessions == 1024 - RESERVE
    warn_of_fewer(fits.settings, fits)
    assert not said
    warn_of_fewer(wanted, fits)
    assert len(said) == 1
