"""How much Hypothesis tries: ``HYPOTHESIS_PROFILE=thorough`` before a release, the default otherwise.

And what is the same for all tests, whoever starts them, and what those need that look for what an input leaves in
memory.
"""

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from twisted.logger import Logger, LogPublisher

# No deadline: how long one example takes says more about the machine than the code, and pytest-timeout ends what hangs.
settings.register_profile("default", deadline=None, derandomize=False, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("default"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure() -> None:
    """A shell that is no terminal's lets what it starts in the background ignore Ctrl-C, and so would whatever that
    starts: programs that tests send one to would go on for ever."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


SPARK = "spark"
"""The fixture that is the Spark session, and the group of the modules that use it."""

FIRST = (SPARK, "tests/docs/test_readme.py")
"""What takes longest is begun first."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of several processes that run tests, one has all modules that use the Spark session, and each of the others
    takes a module when it is done with the one before."""
    modules = {item: item.nodeid.partition("::")[0] for item in items}
    with_spark = {modules[item] for item in items if SPARK in getattr(item, "fixturenames", ())}
    groups = {item: SPARK if module in with_spark else module for item, module in modules.items()}
    items.sort(key=lambda item: FIRST.index(groups[item]) if groups[item] in FIRST else len(FIRST))
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))


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
