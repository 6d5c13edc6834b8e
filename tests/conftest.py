"""Profiles of Hypothesis: by default the same examples at each run, so that the outcome depends on the code alone.
``make test-full`` draws others each time (``HYPOTHESIS_PROFILE=random``); ``thorough`` draws many, before a release.

Which tests need Spark or start processes, so that ``make check`` can do without them. Fixtures of all tests, and of
those that look for what an input leaves in memory.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from twisted.logger import LogEvent, Logger, LogPublisher, globalLogPublisher

from bussrv.policy.logins.users import SecretHash
from bussrv.server.running.process import ALL, OLDER, YOUNG
from tests.browser import chromium, page, profile, running_chromium  # noqa: F401 (fixtures of all tests)
from tests.counters import UNKNOWN, KnownCounters
from tests.forked import Nursery
from tests.places import take_memory
from tests.size import FULL, sized

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

# No deadline: how long one example takes says more about the machine than the code, and pytest-timeout ends what hangs.
settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    max_examples=sized(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("random", settings.get_profile("default"), derandomize=False)
settings.register_profile("thorough", settings.get_profile("random"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


pytest.register_assert_rewrite("tests.formats.objects.hostile.scene")


def pytest_configure() -> None:
    """A shell that is no terminal's lets what it starts in the background ignore Ctrl-C, and so would whatever that
    starts: programs that tests send one to would go on for ever.

    pytest asks for the version of Twisted before each test, and to read a millisecond of its files each time is a
    twentieth of ``make check``."""
    metadata.version = cache(metadata.version)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


TAKEN = pytest.StashKey[Path | None]()


def pytest_sessionstart(session: pytest.Session) -> None:
    session.stash[TAKEN] = take_memory()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """After a failure, the directories stay until the next run."""
    place = session.stash[TAKEN]
    if place is not None and exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(place, ignore_errors=True)


WITH_PROCESSES = ("tests/attacks/", "tests/end_to_end/", "tests/packaging/")
"""Directories whose tests start processes; other modules that do are marked themselves."""


WITH_SPARK = frozenset(
    f"tests/audit/test_{name}.py"
    for name in (
        *("agreement", "checkpoint", "cli", "cluster", "connect", "docs", "engines", "findings", "live", "mutations"),
        *("options", "pasted", "query", "remote", "summary", "tamperings", "versions", "witnesses"),
    )
) | {"tests/audit/source/test_datasource.py", "tests/audit/source/test_docs.py"}
"""The modules with tests that use the one Spark session."""

WITH_BROWSER = frozenset(
    f"tests/admin/dashboard/test_{name}.py"
    for name in ("dashboard", "folding", "history", "incidents", "large", "looks", "servers")
) | {
    *(f"tests/docs/test_{name}.py" for name in ("other_languages", "proxies", "site", "websocket")),
    *("tests/audit/test_looks.py", "tests/end_to_end/test_mqtt_js.py", "tests/formats/websocket/test_client_script.py"),
    "tests/test_browser.py",
}
"""The modules with tests that use the one browser."""

LONG = frozenset(
    {"tests/test_architecture.py", "tests/testing/conformance/test_formats.py", "tests/journal/test_verify.py"}
)
"""Further modules that take long: begun among the last, one of them would leave all other cores without work."""

PROGRAMS = frozenset({"nats_server", "nats_cluster", "running_chromium"})
"""Fixtures that are processes."""


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Modules and tests stay until the end. To look for garbage among them takes a third of the time of their
    collection in each process, and as long at every collection of garbage later. These are as rare as in a server."""
    gc.disable()
    try:
        _import_own_share(session.config)
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(YOUNG, OLDER, ALL)


def _import_own_share(config: pytest.Config) -> None:
    """Of several processes, each compiles some modules before it collects, and finds those that others have compiled.
    To compile all of them takes as long as the collection itself, and each process would do it in a new checkout."""
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    if not worker:
        return
    root = config.rootpath
    places = [root / argument.partition("::")[0] for argument in config.args]
    modules = sorted(module for place in places if place.is_dir() for module in place.rglob("test_*.py"))
    number = int(worker["workerid"].removeprefix("gw"))
    for module in modules[number :: worker["workercount"]]:
        # Whatever it raises is told when the module is collected.
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(module.relative_to(root).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if item.nodeid.startswith(WITH_PROCESSES) or not PROGRAMS.isdisjoint(fixtures):
            item.add_marker("processes")
        if "spark" in fixtures:
            if _module(item.nodeid) not in WITH_SPARK:
                raise pytest.UsageError(f"{item.nodeid} uses Spark: name its module in WITH_SPARK")
            item.add_marker("spark")
        if "running_chromium" in fixtures and _module(item.nodeid) not in WITH_BROWSER:
            raise pytest.UsageError(f"{item.nodeid} uses the browser: name its module in WITH_BROWSER")
    # Those with Spark take longest, then those with the browser. Those with processes wait for them and for clocks:
    # others compute meanwhile, and the last ones, which are short, leave no core without work.
    waiting = {_module(item.nodeid) for item in items if item.get_closest_marker("processes")}
    items.sort(
        key=lambda item: [_module(item.nodeid) not in some for some in (WITH_SPARK, WITH_BROWSER, LONG, waiting)]
    )


def _module(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory for UNIX sockets: their paths have at most 107 bytes, which ``tmp_path`` may exceed."""
    with TemporaryDirectory() as directory:
        yield Path(directory)


@pytest.fixture
def cheap_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets are hashed in no time."""
    monkeypatch.setattr("bussrv.policy.logins.users.NOBODY", SecretHash(bytes(16), bytes(32), 2, 1, 1))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A test that starts a process, itself or by a fixture, says so, or ``make check`` would wait for it."""

    def refuse(*arguments: object, **options: object) -> None:
        pytest.fail("a test that starts a process is marked `processes`")

    with pytest.MonkeyPatch.context() as patch:
        if not any(item.get_closest_marker(name) for name in ("processes", "spark")):
            patch.setattr(subprocess.Popen, "__init__", refuse)
            patch.setattr(Nursery, "start", refuse)
        return (yield)


ONE_BY_ONE = "tests/fuzz/test_corpora.py::test_a_minute_more["
"""Tests of which each takes so long that no process should have them all."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """More processes than cores, if tests wait for servers, disks and clocks; those of ``make check`` do not. At full
    size, tests wait less, and take more memory."""
    cores = os.cpu_count() or 1
    return cores if "not processes" in config.option.markexpr else cores + (2 if FULL else 3)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Several processes collect, and their tests start hundreds. Images of containers often tell Python to keep no
    compiled modules, and each of these processes would compile every module that it imports. One that is alone, as for
    a mutant, does as it is told."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Of several processes that run tests, one has all that use the Spark session, from the start on, and another one
    all that use the browser: they take longest. Each of the others takes a module when it is done with the one before,
    and so do these in the end."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(ONE_BY_ONE):
                return nodeid
            module = _module(nodeid)
            if module in WITH_SPARK:
                return "with Spark"
            return "with the browser" if module in WITH_BROWSER else module

    return Scheduling(config, log)


@pytest.fixture(scope="module")
def quick_collections() -> None:
    """What is looked for after each input is what that input left, not what the tests before it did.

    It is not thawed afterwards: modules and tests would be, too, and each collection would take a third of a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def known_counters(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything that a bus in this process counts has a name that ``docs/errors.md`` explains."""
    monkeypatch.setattr("bussrv.bus.bus.Counter", KnownCounters)
    UNKNOWN.clear()
    yield
    assert not UNKNOWN, f"counted, but neither in REASONS nor in COUNTERS of bussrv/errors.py: {sorted(UNKNOWN)}"


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """Everything that is logged, with all its values."""
    lines: list[str] = []

    def hear(event: LogEvent) -> None:
        lines.append(repr(event))

    globalLogPublisher.addObserver(hear)
    yield lines
    globalLogPublisher.removeObserver(hear)


@pytest.fixture
def no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until logging begins, everything logged is kept, and with it the connection that it is about."""
    for module in ("net.transport.complaints", "formats.objects.server_link", "bus.links.links"):
        monkeypatch.setattr(f"bussrv.{module}.log", Logger(observer=LogPublisher()))
