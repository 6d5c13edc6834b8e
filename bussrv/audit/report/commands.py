"""Commands that show the surroundings of what an audit found, for a shell.

A name that a stranger chose stands in a command only if it is plain. Otherwise somebody could have it pasted into a
shell, or the command would not show the same characters as it has.
"""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath
from typing import TypeGuard

from bussrv.audit.arguments import DEFAULT_OUT
from bussrv.audit.report.text import SECOND, machine_moment

LONGEST = 256
"""Characters of the name of a journal in a command."""

_PLAIN = re.compile(r"[A-Za-z0-9_.:@%+/-]{1,100}")
_SEGMENT = re.compile(r"[0-9]{20}\.jsonl(\.gz)?")


def around(journal: str | None, place: int | str | None) -> str | None:
    """The command that shows the records around a place.

    :param journal: its directory or URL.
    :param place: the number of a record, a time, or ``FILE:LINE``.
    :returns: ``None`` if there is no place, or if the journal is not on this machine.
    """
    if place is None or not _is_here(journal):
        return None
    return f"bussrv journal tail {shlex.quote(journal)} --around {place}"


def at(journal: str | None, moment: int | None) -> str | None:
    """The same around a time, UTC microseconds since 1970."""
    return around(journal, None if moment is None else machine_moment(moment))


def line_of(journal: str | None, file: str | None, line: int | None) -> str | None:
    """The same around a line of a segment."""
    name = PurePosixPath(file or "").name
    return around(journal, f"{name}:{line}") if line is not None and _SEGMENT.fullmatch(name) else None


def verify(journal: str | None, key: str | None, noted: str | None = None) -> str | None:
    """The command that checks a journal.

    :param key: the file of the key that was given to the audit, if any.
    :param noted: the hash of a seal that must be in it.
    """
    if not _is_here(journal) or not (key is None or _is_here(key)):
        return None
    words = ["bussrv", "journal", "verify", journal]
    words += [] if key is None else ["--public-key", key]
    return shlex.join([*words, "--includes", noted] if noted else words)


def history(journal: str | None, name: str | None, begin: int | None, end: int | None) -> str | None:
    """The command that tells what concerns a client or a service in a period, UTC microseconds since 1970."""
    if (
        journal is None
        or not _is_shown_whole(journal)
        or name is None
        or not _PLAIN.fullmatch(name)
        or name.startswith("-")
    ):
        return None
    words = ["bussrv", "timeline", name, journal]
    # Whole seconds are easier to read.
    since = None if begin is None else begin // SECOND
    until = None if end is None else end // SECOND + 1
    for option, seconds in (("--since", since), ("--until", until)):
        words += [] if seconds is None else [option, machine_moment(seconds * SECOND).replace(".000000", "")]
    return shlex.join(words)


def _is_here(journal: str | None) -> TypeGuard[str]:
    """Whether it is a path on this machine."""
    return journal is not None and "://" not in journal and _is_shown_whole(journal)


def _is_shown_whole(journal: str) -> bool:
    """Whether a page shows its name as it is."""
    return journal.isprintable() and 0 < len(journal) <= LONGEST


def ask(query: str, out: str) -> str:
    """The command that asks the tables of an audit.

    :param out: the directory of the audit.
    """
    quoted = shlex.quote(query) if set(query) & set('"$`\\!') else f'"{query}"'
    return f"bussrv audit --sql {quoted}" + ("" if out == str(DEFAULT_OUT) else f" --out {shlex.quote(out)}")
