"""The topics ``$bus/…`` of sessions and services. Pure.

::

    $bus/sessions/<routing id>
    $bus/services/<name>

``%``, ``+`` and ``#`` are written ``%25``, ``%2B`` and ``%23``: they mean something in filters, or here. In a routing
id, ``/`` is ``%2F``: it is one level. The levels of the name of a service are levels of its topic.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from bussrv.plugin import is_pattern
from bussrv.service_patterns import ONE_LEVEL, REST, SEPARATOR
from bussrv.values import PRESENCE_PREFIX

_ESCAPES = (("%", "%25"), ("+", "%2B"), ("#", "%23"))
_SLASH = ("/", "%2F")


class PresenceKind(Enum):
    """The kinds of things that have topics. The value is the second level of the topic."""

    SESSION = "sessions"
    SERVICE = "services"


class Present(NamedTuple):
    """A thing that may be there. :ivar name: the routing id of a session, or the name of a service."""

    kind: PresenceKind
    name: str

    @property
    def topic(self) -> str:
        """Its topic."""
        text = self.name
        for plain, escaped in _escapes(self.kind):
            text = text.replace(plain, escaped)
        return f"{PRESENCE_PREFIX}{self.kind.value}{SEPARATOR}{text}"


_KINDS = {each.value: each for each in PresenceKind}


def present_of(topic: str) -> Present | None:
    """What a topic is about; ``None``: nothing can have it."""
    level, _, text = topic.removeprefix(PRESENCE_PREFIX).partition(SEPARATOR)
    kind = _KINDS.get(level)
    if kind is None or not text:
        return None
    for plain, escaped in reversed(_escapes(kind)):
        text = text.replace(escaped, plain)
    found = Present(kind, text)
    return found if found.topic == topic else None


def is_wanted(wanted: str) -> bool:
    """Whether a name or a pattern may cover such topics."""
    return wanted.startswith(PRESENCE_PREFIX)


def kinds_of(pattern: str) -> tuple[PresenceKind, ...]:
    """The kinds of topics that a pattern may cover."""
    if not is_wanted(pattern) or not is_pattern(pattern):
        return ()
    level = pattern.split(SEPARATOR)[1]
    return tuple(each for each in PresenceKind if level in (each.value, ONE_LEVEL, REST))


def _escapes(kind: PresenceKind) -> tuple[tuple[str, str], ...]:
    return (*_ESCAPES, _SLASH) if kind is PresenceKind.SESSION else _ESCAPES
