"""Tables of cases: one test goes through all rows and says of each that fails why it does."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import pytest

Row = TypeVar("Row")


def check_each(rows: Iterable[tuple[str, Row]], check: Callable[[Row], object]) -> None:
    """Check every row, and fail once with all that failed, by name.

    :param rows: their names and values; no two have the same name.
    """
    failed, names = [], set()
    for name, row in rows:
        assert name not in names, f"two rows are named {name!r}"
        names.add(name)
        try:
            check(row)
        # What `pytest.fail` and `pytest.raises` raise is no Exception.
        except (Exception, pytest.fail.Exception):
            failed.append(f"{name}:\n{traceback.format_exc(limit=-3)}")
    assert names, "there is no row"
    if failed:
        pytest.fail("\n".join([f"{len(failed)} of {len(names)} rows fail:", *failed]), pytrace=False)


def each_row(names: str | tuple[str, ...], rows: Iterable[Any], ids: Any = None) -> Callable[[Any], Any]:
    """Like ``pytest.mark.parametrize``, but one test that goes through all rows. Those above and below another
    ``each_row`` are combined.

    Rows share the fixtures of the test, so it is for tests that change none of them.

    :param rows: values, or ``pytest.param`` with an id.
    :param ids: of all rows, or a function that makes one of a value; otherwise rows are numbered.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = list(rows)
    ids = ids if ids is None or callable(ids) else list(ids)

    def decorate(function: Callable[..., object]) -> Callable[..., None]:
        signature = inspect.signature(function)
        left = [each for each in signature.parameters.values() if each.name not in wanted]

        def test(*arguments: object, **fixtures: object) -> None:
            check_each(
                _named(rows, wanted, ids),
                lambda values: function(*arguments, **fixtures, **dict(zip(wanted, values, strict=True))),
            )

        test.__name__, test.__qualname__, test.__doc__ = function.__name__, function.__qualname__, function.__doc__
        test.__module__ = function.__module__
        test.__dict__.update(function.__dict__)
        test.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return test

    return decorate


def _named(rows: list[Any], wanted: list[str], ids: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for number, row in enumerate(rows):
        name = ""
        if isinstance(row, type(pytest.param())):
            assert not row.marks, "a row with marks is a test of its own"
            values, name = row.values, row.id or ""
        else:
            values = (row,) if len(wanted) == 1 else tuple(row)
        if not name and callable(ids):
            name = " ".join(str(ids(value)) for value in values)
        elif not name and ids is not None:
            name = ids[number]
        yield f"{number} {name}".rstrip(), values
