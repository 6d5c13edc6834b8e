"""The plugin for pytest: each promise of a wire format is a test.

::

    import pytest

    from my_adapter import MyAdapter


    @pytest.mark.conformance(MyAdapter())
    def test_my_format_keeps_its_promises(promise):
        promise()

The mark takes further arguments: ``installed`` finds the plugin of a format by its name, ``seed`` draws other garbage,
and ``in_memory=True`` leaves out what needs a server in a process of its own. A ``conftest.py`` has the plugin with
``pytest_plugins = ["bussrv.testing.pytest_plugin"]``. pytest does not find it by itself: it would then rewrite the
assertions of the whole package, in every run of whoever has installed it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from bussrv.testing.conformance.adapter import Adapter
    from bussrv.testing.conformance.trial import Promise

MARK = "conformance"
FIXTURE = "promise"


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", f"{MARK}(adapter): every promise that a wire format makes is a test")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each promise. One that does not apply is skipped, for the reason that the adapter gives."""
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None or FIXTURE not in metafunc.fixturenames:
        return
    import pytest

    from bussrv.testing.conformance.judging import PROMISES

    rows = []
    in_memory = bool(mark.kwargs.get("in_memory"))
    for each in PROMISES:
        if not (each.is_real and in_memory):
            reason = mark.args[0].why_not(each.needs)
            marks = [] if reason is None else [pytest.mark.skip(reason=reason)]
            rows.append(pytest.param(trial(each, *mark.args, **mark.kwargs), id=each.name, marks=marks))
    metafunc.parametrize(FIXTURE, rows)


def trial(promise: Promise, adapter: Adapter, *, in_memory: bool = False, **options: Any) -> Callable[[], None]:
    """A function that fails the test if the promise is broken."""

    def check() -> None:
        __tracebackhide__ = True
        import pytest

        from bussrv.testing.conformance.judging import judge_one

        verdict = judge_one(promise, adapter, **options)
        if verdict.outcome == "broken":
            said = "\n  ".join([f"{promise.says}\nBroken: {verdict.sentence}", *verdict.clients])
            pytest.fail(said, pytrace=False)

    return check
