"""Links that were up, and are gone: operators see each of them until it is back, or until they forget it."""

from __future__ import annotations

from collections.abc import Container, Iterator

from msgspec import Struct

from bussrv.bus.links.facts import LinkFacts
from bussrv.settings import Settings


class LostLink(Struct, frozen=True, kw_only=True):
    """A server that this one is not linked with, although it was, or is expected to be.

    :ivar server_id: the routing id of the other server.
    :ivar peer: the address that it had; ``None``: it was never linked, or was on a net.
    :ivar dialed: whether this server had dialed it.
    :ivar time: when the link was lost, UTC microseconds; of a server that was never linked, the start of this one.
    :ivar reason: see :data:`bussrv.errors.REASONS`; ``None``: it was never linked.
    :ivar sessions: how many sessions were known over it, besides the server itself.
    """

    server_id: str
    peer: str | None = None
    dialed: bool = False
    time: int
    reason: str | None = None
    sessions: int = 0


class LostLinks:
    """The last lost links, one for each server, at most ``--max-links``, and the expected servers that are not there.

    An expected server is there if it is linked, or on the net of an uplink that is.

    :param started: the time of the start of this server, UTC microseconds.
    """

    def __init__(self, settings: Settings, started: int) -> None:
        self._settings = settings
        self._started = started
        self._lost: dict[str, LostLink] = {}
        self._on_nets: set[str] = set()

    def add(self, link: LinkFacts, reason: str, time: int, sessions: int = 0) -> None:
        """A link is lost.

        :param sessions: how many sessions were known over it.
        """
        server_id, peer, dialed = link.server_id, link.peer, link.dialed
        self._add(LostLink(server_id=server_id, peer=peer, dialed=dialed, time=time, reason=reason, sessions=sessions))

    def _add(self, lost: LostLink) -> None:
        self._lost.pop(lost.server_id, None)
        self._lost[lost.server_id] = lost
        while len(self._lost) > self._settings.max_links:
            del self._lost[next(iter(self._lost))]

    def joined_net(self, server_id: str) -> None:
        """An expected server is on a net."""
        self._on_nets.add(server_id)
        self._lost.pop(server_id, None)

    def left_net(self, server_id: str, reason: str, time: int) -> None:
        """An expected server is not on a net, or not any more.

        :param time: now, UTC microseconds.
        """
        if server_id in self._on_nets:
            self._on_nets.discard(server_id)
            self._add(LostLink(server_id=server_id, time=time, reason=reason))

    def forget(self, server_id: str) -> bool:
        """The link is back, or is not missed. :returns: whether it was lost."""
        return self._lost.pop(server_id, None) is not None

    def all(self, up: Container[str]) -> Iterator[LostLink]:
        """Every lost link, and the expected servers that were never linked.

        :param up: the servers that this one is linked with.
        """
        yield from self._lost.values()
        for each in dict.fromkeys(self._settings.expect_link):
            if each not in up and each not in self._lost and each not in self._on_nets:
                yield LostLink(server_id=each, time=self._started)
