"""The registry for the journal: folded from records, written as a snapshot, and read back.

A snapshot is one or more JSON texts of about ``STATE_BYTES`` at most. Times are UTC microseconds::

    {"in_effect":{"policy":{"name":"policy.toml","digest":"60303a…","rules":[…]},"limits":{"max-payload":8388608,…}},
     "sessions":[{"id":"5f1c2ab94e07.3","protocol":"objects","routing_id":"ann","opened":1795270923123456,…}],
     "services":{"tv":{"5f1c2ab94e07.3":1795270925000001}},
     "subscriptions":[{"session":"5f1c2ab94e07.3","service":null,"interest":{…},"added":…,"renewed":…}]}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import islice

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from bussrv.events import Event
from bussrv.journal.versions import FIRST_WITH_CLAIMS, PROVING, SCHEMA_VERSION
from bussrv.registry.state.session import Session, Subscription
from bussrv.registry.state.state import Change, RegistryState
from bussrv.values import InEffect, with_names

STATE_BYTES = 1 << 18
"""Bytes after which a text of a snapshot ends."""

PORTION = 4096
"""The most providers of a service in one text."""


class _State(Struct, omit_defaults=True):
    in_effect: InEffect | None = None
    sessions: list[Session] = []
    services: dict[str, dict[str, int]] = {}
    subscriptions: list[Subscription] = []


class _Texts(Struct, omit_defaults=True):
    in_effect: Raw | None = None
    sessions: list[Raw] = []
    services: dict[str, Raw] = {}
    subscriptions: list[Raw] = []


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_State).decode


class RegistryFold:
    """See :class:`bussrv.journal.reading.Fold`.

    :ivar state: the registry after everything that was applied.
    """

    def __init__(self) -> None:
        self.state = RegistryState()

    def apply(self, event: Event, time: int) -> None:
        """Apply a record; ``time`` is UTC microseconds."""
        self.state.apply(event, time)

    def apply_all(self, records: Iterable[Change]) -> None:
        """Apply records in a row."""
        self.state.apply_all(records)

    def take(self, state: Raw, version: int = SCHEMA_VERSION) -> None:
        """Add one text of a snapshot.

        :param version: the schema version of the text.
        :raises ValueError: if it is not such a text.
        """
        found = _decode(state)
        sessions = found.sessions if version >= FIRST_WITH_CLAIMS else map(_with_claim, found.sessions)
        self.state.restore(sessions, found.services, found.subscriptions)
        if found.in_effect is not None:
            self.state.in_effect = found.in_effect

    def is_as_written(self, state: Raw, version: int = SCHEMA_VERSION) -> bool:
        """Whether a text that :meth:`take` takes is, byte for byte, what a server of that schema version writes."""
        text = _encode(_decode(state))
        return bytes(state) == (text if version >= FIRST_WITH_CLAIMS else text.replace(_NO_CLAIM, b""))

    def digest(self, *, persons: bool = True) -> str:
        """The SHA-256 of the registry, in hexadecimal digits. It does not depend on the order of entries.

        :param persons: whether actors and claimed names count.
        """
        state = self.state
        sessions = state.sessions.values() if persons else map(_nobody, state.sessions.values())
        entries = [_encode(each) for each in sessions]
        for name, providers in state.services.items():
            entries += [_encode((name, *each)) for each in providers.items()]
        entries += [_encode(each) for each in state.all_subscriptions()]
        if state.in_effect is not None:
            # A boot with pseudonyms may follow one without: then the same rules have other names.
            entries.append(_encode(with_names(state.in_effect, _no_name, _no_name)))
        return sha256(b"\n".join(sorted(entries))).hexdigest()

    def states(self) -> list[bytes]:
        """The texts of a snapshot; none for an empty registry."""
        states: list[bytes] = []
        texts, size = _Texts(), 0
        for kind, name, text in self._entries():
            if size >= STATE_BYTES or (kind == "services" and name in texts.services):
                states.append(_encode(texts))
                texts, size = _Texts(), 0
            if kind == "services":
                texts.services[name] = Raw(text)
            elif kind == "in_effect":
                texts.in_effect = Raw(text)
            else:
                getattr(texts, kind).append(Raw(text))
            size += len(name) + len(text)
        if size:
            states.append(_encode(texts))
        return states

    def _entries(self) -> Iterator[tuple[str, str, bytes]]:
        """Every entry with its member and name; sessions before services and subscriptions, which refer to them."""
        if self.state.in_effect is not None:
            yield "in_effect", "", _encode(self.state.in_effect)
        for session in self.state.sessions.values():
            yield "sessions", "", _encode(session)
        for name, providers in self.state.services.items():
            for some in _portions(providers):
                yield "services", name, _encode(some)
        for subscription in self.state.all_subscriptions():
            yield "subscriptions", "", _encode(subscription)


_NO_CLAIM = b',"claimed":null'
"""Stands in no string, where the quotes would be escaped."""


def _no_name(_: str) -> str:
    return ""


def _nobody(session: Session) -> Session:
    return replace(session, actor=None, claimed=None)


def _with_claim(session: Session) -> Session:
    """A session of a snapshot that has one field for the actor and the claimed name."""
    if session.protocol == PROVING:
        return replace(session, claimed=None)
    return replace(session, actor=None, claimed=session.actor)


def _portions(providers: dict[str, int]) -> Iterator[dict[str, int]]:
    """The providers of a service in parts, since there may be very many."""
    left = iter(providers.items())
    while some := dict(islice(left, PORTION)):
        yield some
