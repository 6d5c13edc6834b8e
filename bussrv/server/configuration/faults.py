"""Faults of values, collected so that all of them are reported together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from bussrv.bus.interfaces import Use
from bussrv.errors import ConfigError, JournalError


@contextmanager
def noting(place: str, faults: list[str]) -> Iterator[None]:
    """Note what is wrong with the value at a place, instead of raising it."""
    try:
        yield
    except (ConfigError, JournalError) as error:
        faults.append(f"{place}: {error}")


@contextmanager
def collecting(faults: list[str]) -> Iterator[None]:
    """Collect the sentences of faults that name their places, instead of raising them."""
    try:
        yield
    except ConfigError as error:
        faults += error.sentences


def prepare_all(prepares: Iterable[Callable[[], Use]], faults: list[str]) -> list[Use]:
    """Prepare parts of the server.

    :param faults: gets what is wrong with them.
    :returns: what puts them into effect.
    """
    uses: list[Use] = []
    for prepare in prepares:
        with collecting(faults):
            uses.append(prepare())
    return uses
