"""Retained publications of a wire format that outlive the server, in its spool.

What a user, or an address without a user, retains belongs to one owner of the spool. So it counts against the limits of
the spool, and ``bussrv journal forget`` finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv.addresses import address_key
from bussrv.bus.interfaces import IBus
from bussrv.registry.state.session import Session
from bussrv.spool.entries import Change, Claim, Put, RemoveKey
from bussrv.values import Publication

log = Logger()

KIND = "retained"


Own = TypeVar("Own")


class _Kept(Struct, Generic[Own], frozen=True):
    """A retained publication, as the spool has it.

    :ivar sent: the facts that its wire format alone knows.
    """

    content_type: str
    payload: bytes
    sent: Own


class DurableRetained(Generic[Own]):
    """Keeps in the spool what is retained, and retains it again after a restart.

    :param format_name: the name of the wire format. The owners in the spool begin with ``FORMAT-retained``.
    :param own: the type of what its publications have as ``own``, which :mod:`msgspec` can encode.
    :param expires: when a publication with that ends, UTC microseconds; ``None``: never.
    """

    def __init__(
        self,
        bus: IBus,
        format_name: str,
        own: type[Own],
        *,
        expires: Callable[[Own], int | None],
    ) -> None:
        self._bus = bus
        self._format = format_name
        self._owner = f"{format_name}-retained "
        self._kind = own
        self._decode = msgspec.msgpack.Decoder(_Kept[own]).decode  # type: ignore[valid-type]
        self._expires = expires
        # By service, those that have it, or may have it while it is written.
        self._owners: dict[str, tuple[str, ...]] = {}
        # By service, while something of it is written: what the spool has, and the address that it came from.
        self._confirmed: dict[str, tuple[Publication | None, str]] = {}
        self._loading: Deferred[None] | None = None

    def _unread(self, failure: Failure) -> None:
        why, name = failure.getErrorMessage(), self._format
        log.error("{name}: what was retained cannot be read: {why}", event="spool.retained-unread", name=name, why=why)

    # Earlier boots.

    def loaded(self) -> Deferred[None]:
        """:returns: fires when everything of earlier boots is retained again."""
        if self._loading is None:
            self._loading = Deferred.fromCoroutine(self._load()).addErrback(self._unread)
        loaded: Deferred[None] = Deferred()
        self._loading.addCallback(lambda _: loaded.callback(None))
        return loaded

    async def _load(self) -> None:
        after = ""
        while owners := await self._bus.spool.owners(after=after):
            for owner in owners:
                if owner.startswith(self._owner):
                    await self._load_of(owner)
            after = owners[-1]

    async def _load_of(self, owner: str) -> None:
        last, is_last = 0, False
        about = await self._bus.spool.owner(owner)
        address = "" if about is None else about.address
        while not is_last:
            page = await self._bus.spool.page(owner, KIND, after=last)
            for entry in page.entries:
                last, service = entry.number, entry.key or ""
                self._owners[service] = (owner,)
                if self._bus.retained.get(service) is None:
                    kept = self._decode(entry.payload)
                    publication = Publication(service, kept.content_type, kept.payload, own=kept.sent)
                    self._bus.retained.put(publication, address)
            is_last = page.is_last

    # This boot.

    def put(self, publication: Publication, session: Session) -> Deferred[Any] | None:
        """A session retains a publication, or, without a payload, clears what is retained.

        :returns: fires when that is durable; fails with :class:`bussrv.errors.Refused`, which the spool has counted.
            The former publication is retained again then, as it is in the spool. ``None``: there is no room in memory.
        """
        retained, service = self._bus.retained, publication.service
        former = retained.get(service), retained.address_of(service)
        if not retained.put(publication, session.peer):
            return None
        self._confirmed.setdefault(service, former)
        return self._keep(publication, session)

    def _keep(self, publication: Publication, session: Session) -> Deferred[Any]:
        service, owner = publication.service, self._owner + (session.actor or address_key(session.peer))
        before, after = self._owners.get(service, ()), (owner,) if publication.payload else ()
        changes: list[Change] = [RemoveKey(owner=each, kind=KIND, key=service) for each in before if each not in after]
        if publication.payload:
            own = publication.own
            assert isinstance(own, self._kind), "a wire format retains its own publications"
            payload = msgspec.msgpack.encode(_Kept(publication.content_type, publication.payload, own))
            kept = Put(owner=owner, kind=KIND, key=service, payload=payload, expires=self._expires(own))
            changes += [Claim(owner=owner, address=session.peer, actor=session.actor), kept]
        meanwhile = self._owners[service] = tuple({*before, *after})

        def written(outcome: Any) -> Any:
            is_refused = isinstance(outcome, Failure)
            if not is_refused:
                self._confirmed[service] = publication, session.peer
            if self._owners.get(service) is meanwhile:
                self._set_owners(service, before if is_refused else after)
                self._settled(service, self._confirmed.pop(service), is_refused=is_refused)
            return outcome

        done: Deferred[Any] = self._bus.spool.write(changes) if changes else succeed(None)
        return done.addBoth(written)

    def _settled(self, service: str, confirmed: tuple[Publication | None, str], *, is_refused: bool) -> None:
        """Nothing of a service is being written any more: retain what the spool has, if the last one was refused."""
        publication, address = confirmed
        if is_refused:
            self._bus.retained.remove(service)
            if publication is not None:
                self._bus.retained.put(publication, address)

    def _set_owners(self, service: str, owners: tuple[str, ...]) -> None:
        if owners:
            self._owners[service] = owners
        else:
            del self._owners[service]
