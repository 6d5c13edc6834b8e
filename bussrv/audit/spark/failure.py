"""Errors of Spark, and of its absence, in one line. Importing this does not import Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from bussrv.errors import BussrvError


class SparkFailed(BussrvError):
    """Spark failed, or cannot run. The message says why."""


INSTALL = "pip install 'bussrv[audit]', in a checkout: pip install -e '.[audit]'"
"""The advice of an error without PySpark."""

_RAISED = re.compile(r"^ *Traceback \(.*\n(?: +.*\n)+(?:bussrv\.errors\.JournalError: )?(.+)", re.MULTILINE)

_CAUSE = re.compile(r"^Caused by: (.+)", re.MULTILINE)

_THROWN = re.compile(
    r'^(?:Caused by: |Exception in thread "[^"]*" )?((?:\w+\.)+[\w$]+(?:Exception|Error)(?:: .*)?)$', re.MULTILINE
)

_NO_MEMORY = re.compile(r"^# (There is insufficient memory for the Java Runtime Environment)", re.MULTILINE)

_KILLED = re.compile(r"ERROR StandaloneSchedulerBackend: Application has been killed\. Reason: (.+)")

# Java writes these after a line that says more.
_JAVA_ENDS = ("Error: Could not create the Java Virtual Machine", "Error: A fatal exception has occurred")

_PACKAGE = re.compile(r"^(?:[a-z_]\w*\.)+(?=[A-Z])")

_PACKAGES = frozenset({"pyspark", "py4j", "grpc"})


def is_sparks(error: BaseException) -> bool:
    """Whether an error comes from Spark, or from what speaks to it."""
    return type(error).__module__.partition(".")[0] in _PACKAGES


def in_one_line(error: BaseException) -> str:
    """The most telling line of an error. The first line of Py4J only names a call to Java.

    Of an error in a Python worker, it is the error that was raised last; of a chain of Java, its root cause.
    """
    if raised := _RAISED.findall(str(error)):
        return str(raised[-1])
    if causes := _CAUSE.findall(str(error)):
        return _deepest(causes)
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith("An error occurred while calling ")]
    return told[0] if told else type(error).__name__


def reason_in(log: str) -> str | None:
    """The reason why Spark did not start, from what Java and Spark wrote; ``None``: they wrote nothing.

    It is the root cause of the last exception, or else the last line that says anything.
    """
    if killed := killed_in(log):
        return killed
    if memory := _NO_MEMORY.search(log):
        return memory[1]
    if thrown := _last_chain(log):
        return _deepest(thrown)
    lines = [line.strip() for line in log.splitlines()]
    told = [line for line in lines if line and not line.startswith(_JAVA_ENDS)]
    return told[-1] if told else None


def killed_in(log: str) -> str | None:
    """Why a cluster ended the application or did not take it, from the log of Spark; ``None``: it did not."""
    found = _KILLED.search(log)
    if found is None:
        return None
    why = found[1].strip()
    thrown = _last_chain(log[: found.start()])
    return f"{why.rstrip('.')}: {_deepest(thrown)}" if thrown else why


def _last_chain(log: str) -> list[str]:
    """The last exception in a log, and its causes."""
    chain: list[str] = []
    for each in _THROWN.finditer(log):
        if not each[0].startswith("Caused by: "):
            chain = []
        chain.append(each[1])
    return chain


def _deepest(chain: list[str]) -> str:
    """The root cause of a chain of Java, without its package: the last one that has a message, if any has. The one
    before it is taken if it repeats that message and says more, such as which program does not start.
    """
    telling = [each.strip() for each in chain if ": " in each] or chain
    root, outer = telling[-1], telling[-2] if len(telling) > 1 else ""
    message = root.partition(": ")[2]
    more = outer.partition(": ")[2].removesuffix(message)
    if message and outer.endswith(message) and " " in more.strip(" :"):
        root = outer
    return _PACKAGE.sub("", root.strip())


@contextmanager
def as_failure(kind: type[BussrvError]) -> Iterator[None]:
    """Raise errors of Spark as an error of this kind, in one sentence. Other errors pass."""
    try:
        yield
    except Exception as error:
        if not is_sparks(error):
            raise
        raise kind(f"Spark failed: {in_one_line(error)}") from error
