"""Patterns over the names of services, as topic filters of MQTT have them. Pure. Source: MQTT 5.0, section 4.7.

A name has *levels*, parted by ``/``. In a pattern, the level ``+`` stands for any one level, and ``#`` as the last one
for any number of levels, none included: ``hall/#`` matches ``hall``, too. Names that begin with ``$``, and those whose
first level is ``bus``, match only patterns that begin with that level.
"""

from __future__ import annotations

import re

from bussrv.errors import Refused

SEPARATOR = "/"
ONE_LEVEL = "+"
REST = "#"
SHARE = "$share/"

_WILDCARD_LEVEL = re.compile(r"(?:\A|/)[+#](?:/|\Z)")


def is_pattern(name: str) -> bool:
    """Whether a level is a wildcard. No new service has such a name."""
    return _WILDCARD_LEVEL.search(name) is not None


def check_pattern(pattern: str) -> None:
    """:raises Refused: ``bad-service-name``: there are levels after ``#``."""
    if REST in pattern.split(SEPARATOR)[:-1]:
        raise Refused("bad-service-name", f"in a pattern, {REST} is the last level")


def filter_of(wanted: str) -> str:
    """The name or pattern in what a session is subscribed to: all of it, or what follows ``$share/GROUP/``."""
    return wanted.split(SEPARATOR, 2)[2] if is_shared(wanted) else wanted


def is_shared(wanted: str) -> bool:
    """Whether each publication on what a session is subscribed to goes to one session of a group: it is of the form
    ``$share/GROUP/FILTER``. Source: MQTT 5.0, section 4.8.2.
    """
    return wanted.startswith(SHARE) and wanted.count(SEPARATOR) > 1


def is_apart(name: str) -> bool:
    """Whether only patterns match that begin with the first level of this name."""
    return name.startswith("$") or name.partition(SEPARATOR)[0] == "bus"


def matches(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern."""
    wanted, levels = pattern.split(SEPARATOR), name.split(SEPARATOR)
    if is_apart(name) and wanted[0] != levels[0]:
        return False
    has_rest = wanted[-1] == REST
    if has_rest:
        del wanted[-1]
        levels[len(wanted) :] = []
    return len(wanted) == len(levels) and all(
        each in (ONE_LEVEL, level) for each, level in zip(wanted, levels, strict=True)
    )
