"""The options of a reader. Spark gives them as texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from bussrv.errors import BadValue

EARLIEST = "earliest"
LATEST = "latest"

BYTES_PER_TRIGGER = 256 << 20
"""About how many bytes of segments a batch of a stream has at most, unless an option says so."""


class ReadOptions(Struct, frozen=True):
    """How journals are read.

    :ivar directories: of the journals.
    :ivar start: ``EARLIEST``, ``LATEST``, or the number of a record.
    :ivar fail_on_loss: whether reading ends with an error at records that are missing, damaged or were taken back.
        Otherwise they are left out.
    :ivar most: about how many bytes of segments a batch of a stream has at most.
    :ivar sealed: whether only what the manifest vouches for is read.
    """

    directories: tuple[str, ...]
    start: str | int = EARLIEST
    fail_on_loss: bool = True
    most: int = BYTES_PER_TRIGGER
    sealed: bool = False


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a reader.

    :param given: as Spark has them; names in any case.
    :raises BadValue: if one is not what it should be.
    """
    start = given.get("startingAt", EARLIEST)
    if start not in (EARLIEST, LATEST) and not (start.isdecimal() and start.isascii() and int(start) > 0):
        raise BadValue(f"startingAt is {start!r}: neither {EARLIEST} nor {LATEST} nor the number of a record")
    most = given.get("maxBytesPerTrigger", str(BYTES_PER_TRIGGER))
    if not (most.isdecimal() and most.isascii() and int(most) > 0):
        raise BadValue(f"maxBytesPerTrigger is {most!r}, which is no number of bytes")
    return ReadOptions(
        _paths(given),
        start if start in (EARLIEST, LATEST) else int(start),
        _flag(given, "failOnDataLoss", True),
        int(most),
        _flag(given, "sealed", False),
    )


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    """The directories, as ``load(…)`` or the option ``paths``, a list in JSON, names them."""
    if "paths" in given:
        try:
            paths = msgspec.json.decode(given["paths"], type=tuple[str, ...])
        except msgspec.DecodeError as error:
            raise BadValue(f"paths is not a list of directories in JSON: {error}") from error
    else:
        paths = (given["path"],) if given.get("path") else ()
    if not paths:
        raise BadValue("no journal is named: load(DIRECTORY)")
    # Workers may run in other directories.
    return tuple(str(Path(each).absolute()) for each in paths)


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise BadValue(f"{name} is {text!r}, neither true nor false")
    return text == "true"
