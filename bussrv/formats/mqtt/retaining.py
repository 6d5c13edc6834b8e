"""Retained messages that outlive the server, in its spool: with ``--mqtt-retain durable``.

What a user, or an address without a user, retains belongs to one owner of the spool. So it counts against the limits of
the spool, and ``bussrv journal forget`` finds it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv.formats.mqtt.encoding import Sent
from bussrv.plugin import Change, Claim, IBus, Publication, Put, RemoveKey, Session, address_key

OWNER = "mqtt-retained "
KIND = "retained"

log = Logger()


class _Head(Struct, frozen=True, omit_defaults=True):
    """The part before the payload: JSON and a NUL."""

    content_type: str
    sent: Sent


_decode = msgspec.json.Decoder(_Head).decode
_encode = msgspec.json.Encoder().encode


class DurableRetained:
    """Keeps in the spool what is retained, and retains it again after a restart."""

    def __init__(self, bus: IBus) -> None:
        self._bus = bus
        self._owners: dict[
            str, tuple[str, ...]
        ] = {}  # by service, those that have it, or may have it while it is written
        self._loading: Deferred[None] | None = None

    def loaded(self) -> Deferred[None]:
        """:returns: fires when everything of earlier boots is retained again."""
        if self._loading is None:
            self._loading = Deferred.fromCoroutine(self._load()).addErrback(self._failed)
        loaded: Deferred[None] = Deferred()
        self._loading.addCallback(lambda _: loaded.callback(None))
        return loaded

    def _failed(self, failure: Failure) -> None:
        why = failure.getErrorMessage()
        log.error("mqtt: what was retained cannot be read: {why}", event="mqtt.retained-unread", why=why)

    async def _load(self) -> None:
        after = ""
        while owners := await self._bus.spool.owners(after=after):
            for owner in owners:
                if owner.startswith(OWNER):
                    await self._load_of(owner)
            after = owners[-1]

    async def _load_of(self, owner: str) -> None:
        last, is_last = 0, False
        while not is_last:
            page = await self._bus.spool.page(owner, KIND, after=last)
            for entry in page.entries:
                last, service = entry.number, entry.key or ""
                self._owners[service] = (owner,)
                if self._bus.retained.get(service) is None:
                    self._bus.retained.put(_unpacked(service, entry.payload))
            is_last = page.is_last

    def keep(self, publication: Publication, session: Session) -> Deferred[Any]:
        """A session retains a publication, or, without a payload, clears what is retained.

        :returns: fires when that is durable; fails with :class:`bussrv.errors.Refused`, which the spool has counted.
        """
        service, owner = publication.service, OWNER + (session.actor or address_key(session.peer))
        before, after = self._owners.get(service, ()), (owner,) if publication.payload else ()
        changes: list[Change] = [RemoveKey(owner=each, kind=KIND, key=service) for each in before if each not in after]
        if publication.payload:
            sent = publication.own
            assert isinstance(sent, Sent)
            kept = Put(owner=owner, kind=KIND, key=service, payload=_packed(publication, sent), expires=sent.expires)
            changes += [Claim(owner=owner, address=session.peer, actor=session.actor), kept]
        if not changes:
            return succeed(None)
        meanwhile = self._owners[service] = tuple({*before, *after})

        def written(outcome: Any) -> Any:
            if self._owners.get(service) is meanwhile:
                self._set_owners(service, before if isinstance(outcome, Failure) else after)
            return outcome

        return self._bus.spool.write(changes).addBoth(written)

    def _set_owners(self, service: str, owners: tuple[str, ...]) -> None:
        if owners:
            self._owners[service] = owners
        else:
            del self._owners[service]


def _packed(publication: Publication, sent: Sent) -> bytes:
    return _encode(_Head(publication.content_type, sent)) + b"\0" + publication.payload


def _unpacked(service: str, packed: bytes) -> Publication:
    head, _, payload = packed.partition(b"\0")
    found = _decode(head)
    return Publication(service, found.content_type, payload, own=found.sent)
