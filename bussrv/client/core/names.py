"""Names of services that may have wildcards: ``*`` for any characters, ``?`` for one."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


def has_wildcard(name: str) -> bool:
    """Whether a name may match several services."""
    return "*" in name or "?" in name


def matches(service: str, names: Iterable[str]) -> bool:
    """Whether the name of a service matches one of some names."""
    # Brackets have no meaning in names of services.
    return any(fnmatchcase(service, name.replace("[", "[[]")) for name in names)
