"""Names of services as programs give them: perhaps with wildcards, ``*`` for any characters and ``?`` for one.

Or patterns over names; see :mod:`bussrv.service_patterns`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from bussrv import service_patterns
from bussrv.client.errors import BusError
from bussrv.errors import Refused
from bussrv.values import check_service_name


def check_name(name: str, check: Callable[[str], object] = check_service_name) -> None:
    """:raises BusError: it cannot be the name of a service.

    :param check: the check of :mod:`bussrv.values`; by default the one of new names.
    """
    try:
        check(name)
    except Refused as refusal:
        raise BusError(refusal.reason, refusal.message) from None


def has_wildcard(name: str) -> bool:
    """Whether a name has wildcards, which servers do not know."""
    return "*" in name or "?" in name


def is_wide(name: str) -> bool:
    """Whether a name may match several services."""
    return has_wildcard(name) or service_patterns.is_pattern(name)


def matches(service: str, names: Iterable[str]) -> bool:
    """Whether the name of a service matches one of some names."""
    return any(_matches(service, name) for name in names)


def _matches(service: str, name: str) -> bool:
    if service_patterns.is_pattern(name):
        return service_patterns.matches(name, service)
    # Brackets have no meaning in names of services.
    return fnmatchcase(service, name.replace("[", "[[]"))
