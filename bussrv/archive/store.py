"""The files of one journal at a URL: errors in one sentence, and tried again if they may pass."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

from bussrv.archive.places import LocalPlace, Place, place_at
from bussrv.errors import JournalError
from bussrv.journal.segment import first_seq, is_segment_name

T = TypeVar("T")

Content = Callable[[], Iterable[bytes]]
"""Gives the content of a file in parts, from the beginning each time."""

DELAYS = (0.5, 2.0, 8.0)
"""The seconds after which something is tried again."""

_PASSING = frozenset(
    {
        *(errno.EAGAIN, errno.EBUSY, errno.EIO, errno.EREMOTEIO, errno.ESTALE, errno.ETIMEDOUT),
        *(errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH),
    }
)

_PASSING_NAMES = frozenset(
    {"ClientError", "ConnectionError", "FileExpired", "HTTPClientError", "IncompleteReadError", "TimeoutError"}
)
"""The names of classes of the packages that fsspec uses, which are not imported here."""


class StoreError(JournalError):
    """A store did not do what it was asked.

    :ivar is_passing: whether it may do it later, without anybody's help.
    """

    def __init__(self, message: str, *, is_passing: bool) -> None:
        super().__init__(message)
        self.is_passing = is_passing


def is_passing(error: Exception) -> bool:
    """Whether an error may pass by itself."""
    if isinstance(error, OSError) and error.errno in _PASSING:
        return True
    return bool(_PASSING_NAMES & {each.__name__ for each in type(error).__mro__})


class Store:
    """The files of one journal.

    Methods raise :exc:`StoreError`; a :exc:`JournalError` that is raised by what they are given passes.

    :ivar url: without a slash at its end.
    :param pause: waits some seconds.
    """

    def __init__(self, url: str, place: Place, pause: Callable[[float], None] = time.sleep) -> None:
        self.url = url.rstrip("/")
        self._place = place
        self._pause = pause

    def is_at(self, directory: Path) -> bool:
        """Whether it is this directory."""
        place = self._place
        with suppress(OSError):
            return isinstance(place, LocalPlace) and place.directory.samefile(directory)
        return False

    def at(self, name: str) -> str:
        """The URL of a file."""
        return f"{self.url}/{name}"

    def names(self) -> frozenset[str]:
        """The names of the files that are there."""
        return self._try("list", self.url, lambda: frozenset(self._place.names()))

    def create(self, name: str, content: Content) -> None:
        """Make a file. One that is there stays as it is."""
        self._try("write", self.at(name), lambda: self._create(name, content))

    def replace(self, name: str, content: Content) -> None:
        """Make a file, in the place of the one that is there."""
        self._try("write", self.at(name), lambda: self._place.replace(name, content()))

    def read(self, name: str, take: Callable[[BinaryIO], T]) -> T:
        """Read a file. :returns: what ``take`` makes of it, which is called again if reading fails."""

        def opened() -> T:
            with closing(self._place.open(name)) as file:
                return take(file)

        return self._try("read", self.at(name), opened)

    def _create(self, name: str, content: Content) -> None:
        try:
            self._place.create(name, content())
        except JournalError:
            raise
        except Exception:
            # Somebody was faster, or the answer to an earlier attempt was lost.
            if not self._place.exists(name):
                raise

    def _try(self, verb: str, url: str, function: Callable[[], T]) -> T:
        for delay in DELAYS:
            try:
                return _once(verb, url, function)
            except StoreError as error:
                if not error.is_passing:
                    raise
            self._pause(delay)
        return _once(verb, url, function)


def _once(verb: str, url: str, function: Callable[[], T]) -> T:
    try:
        return function()
    except JournalError:
        raise
    except Exception as error:
        raise StoreError(f"cannot {verb} {url}: {_said(error)}", is_passing=is_passing(error)) from error


def open_store(url: str) -> Store:
    """The store at a URL.

    :raises JournalError: there is no such store, or what opens it is not installed.
    """
    place = place_at(url)
    # A path that is not absolute would be another place for a program that runs elsewhere.
    return Store(place.directory.as_uri() if isinstance(place, LocalPlace) else url, place)


def segment_names(names: Iterable[str]) -> dict[int, str]:
    """The names of segments among others, by the numbers of the segments."""
    # If both files exist, the one that is not compressed comes last, and counts.
    return {first_seq(Path(each)): each for each in sorted(names, reverse=True) if is_segment_name(each)}


def _said(error: Exception) -> str:
    text = " ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__
    if isinstance(error, FileNotFoundError):
        return f"there is no such bucket or file: {text}"
    if isinstance(error, PermissionError):
        return f"it is refused: {text}. Check the credentials, and what they may do"
    return text
