"""Retained publications: the last one on a service that its publisher wants kept, also when it has gone. In memory."""

from __future__ import annotations

from collections import Counter

from bussrv.values import Publication

OVERHEAD = 512
"""A retained publication counts as so many bytes, besides its payload and the name of its service."""


class Retained:
    """Publications by service. Bounded in all: what does not fit is not retained, and nothing makes room for it.

    :ivar most: the most bytes of all together.
    :param counters: ``retained-full`` counts what did not fit.
    """

    def __init__(self, most: int, counters: Counter[str]) -> None:
        self.most = most
        self._counters = counters
        self._kept: dict[str, Publication] = {}
        self._size = 0

    def put(self, publication: Publication) -> bool:
        """Retain a publication instead of the last one on its service. An empty payload only removes that.

        :returns: whether it is retained, or was not to be.
        """
        self.remove(publication.service)
        if not publication.payload:
            return True
        size = _size(publication)
        if self._size + size > self.most:
            self._counters["retained-full"] += 1
            return False
        self._kept[publication.service] = publication
        self._size += size
        return True

    def remove(self, service: str) -> None:
        """Retain nothing on a service any more."""
        former = self._kept.pop(service, None)
        if former is not None:
            self._size -= _size(former)

    def get(self, service: str) -> Publication | None:
        """The retained publication on a service."""
        return self._kept.get(service)

    def services(self) -> list[str]:
        """The services that something is retained on."""
        return [*self._kept]


def _size(publication: Publication) -> int:
    return OVERHEAD + len(publication.payload) + len(publication.service)
