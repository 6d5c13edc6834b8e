"""How much Hypothesis tries: ``HYPOTHESIS_PROFILE=thorough`` before a release, the default otherwise.

And what is the same for all tests, whoever starts them, and what those need that look for what an input leaves in
memory.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from twisted.logger import Logger, LogPublisher

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

# No deadline: how long one example takes says more about the machine than the code, and pytest-timeout ends what hangs.
settings.register_profile("default", deadline=None, derandomize=False, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("default"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure() -> None:
    """A shell that is no terminal's lets what it starts in the background ignore Ctrl-C, and so would whatever that
    starts: programs that tests send one to would go on for ever."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


WITH_SPARK = "tests/audit/"
"""Where all tests are that use the one Spark session."""

WITHOUT_IT = ("tests/audit/test_html.py", "tests/audit/test_workers.py")
"""The modules there that take a while and do not."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Of several processes that run tests, one has all that use the Spark session, from the start on: they take
    longest. Each of the others takes a module when it is done with the one before, and so does that one in the end."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            module = nodeid.partition("::")[0]
            return WITH_SPARK if module.startswith(WITH_SPARK) and module not in WITHOUT_IT else module

    return Scheduling(config, log)


@pytest.fixture(scope="module")
def quick_collections() -> Iterator[None]:
    """What is looked for after each input is what that input left, not what the tests before it did."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until logging begins, everything logged is kept, and with it the connection that it is about."""
    for module in ("formats.stream", "formats.links", "bus.links"):
        monkeypatch.setattr(f"bussrv.{module}.log", Logger(observer=LogPublisher()))
