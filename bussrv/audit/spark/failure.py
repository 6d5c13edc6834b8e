"""Errors of Spark, and of its absence, in one line. Importing this does not import Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from bussrv.errors import BussrvError

INSTALL = "pip install 'bussrv[audit]', in a checkout: pip install -e '.[audit]'"
"""The advice of an error without PySpark."""

_RAISED = re.compile(r"^ *Traceback \(.*\n(?: +.*\n)+(?:bussrv\.errors\.JournalError: )?(.+)", re.MULTILINE)

_PACKAGES = frozenset({"pyspark", "py4j", "grpc"})


def is_sparks(error: BaseException) -> bool:
    """Whether an error comes from Spark, or from what speaks to it."""
    return type(error).__module__.partition(".")[0] in _PACKAGES


def in_one_line(error: BaseException) -> str:
    """The most telling line of an error. The first line of Py4J only names a call to Java.

    Of an error in a Python worker, it is the error that was raised last.
    """
    if raised := _RAISED.findall(str(error)):
        return str(raised[-1])
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith("An error occurred while calling ")]
    return told[0] if told else type(error).__name__


@contextmanager
def as_failure(kind: type[BussrvError]) -> Iterator[None]:
    """Raise errors of Spark as an error of this kind, in one sentence. Other errors pass."""
    try:
        yield
    except Exception as error:
        if not is_sparks(error):
            raise
        raise kind(f"Spark failed: {in_one_line(error)}") from error
