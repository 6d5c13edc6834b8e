"""Disks of real servers that fail when a test says so, and work again.

A file beside the journal says which calls fail, and with what error; ``sitecustomize`` of the server's process looks
at it before each call. So the whole server runs as it is, down to the calls of the system.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SITECUSTOMIZE = """
import os

FAULTS, JOURNAL = os.environ["FAULTS"], os.environ["JOURNAL"]


def failing(name):
    call = getattr(os, name)

    def checked(descriptor, *arguments):
        try:
            with open(FAULTS) as file:
                number, *calls = file.read().split()
        except FileNotFoundError:
            return call(descriptor, *arguments)
        if name in calls and os.readlink(f"/proc/self/fd/{descriptor}").startswith(JOURNAL):
            raise OSError(int(number), os.strerror(int(number)))
        return call(descriptor, *arguments)

    setattr(os, name, checked)


for name in ("write", "fsync", "fdatasync", "ftruncate"):
    failing(name)
"""


class FailingDisk:
    """Injects errors into the calls of a server.

    :ivar environment: what the process of the server needs.
    """

    def __init__(self, directory: Path, journal: Path) -> None:
        (directory / "path").mkdir()
        (directory / "path" / "sitecustomize.py").write_text(SITECUSTOMIZE)
        self._faults = directory / "faults"
        paths = f"{directory / 'path'}:{ROOT}"
        self.environment = {"PYTHONPATH": paths, "FAULTS": str(self._faults), "JOURNAL": str(journal)}

    @contextmanager
    def failing(self, number: int, *calls: str) -> Iterator[None]:
        """For as long as this lasts, these calls fail with an error such as ``errno.EIO``."""
        new = self._faults.with_suffix(".new")
        new.write_text(f"{number} {' '.join(calls)}")
        new.rename(self._faults)
        yield
        self._faults.unlink()


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """For as long as this lasts, nothing can be made, renamed or removed in a directory.

    The system refuses to remount what has files that are open for writing. So a read-only mount takes its place: the
    server may still write the files that it has open, but not make another one. The test is skipped where that cannot
    be done.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can mount a directory read-only")
    aside = directory.with_name(f"{directory.name}-read-only")
    aside.mkdir(exist_ok=True)
    _mount("--bind", str(directory), str(aside))
    try:
        _mount("-o", "remount,bind,ro", str(aside))
        # All at once: no file can be opened for writing in between.
        _mount("--bind", str(aside), str(directory))
        try:
            yield
        finally:
            _unmount(directory)
    finally:
        _unmount(aside)


def _mount(*arguments: str) -> None:
    try:
        mounted = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if mounted.returncode:
        pytest.skip(f"directories cannot be mounted read-only here: {mounted.stderr.strip()}")


def _unmount(directory: Path) -> None:
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


FAULTS = {
    "EIO on sync": (errno.EIO, ("fsync", "fdatasync")),
    "EIO on everything": (errno.EIO, ("write", "fsync", "fdatasync", "ftruncate")),
    "EROFS on write": (errno.EROFS, ("write", "ftruncate")),
}
