"""Retained publications: the last one on a service that its publisher wants kept, also when it has gone. In memory."""

from __future__ import annotations

from collections import Counter

from bussrv.addresses import address_key, is_exempt
from bussrv.settings import Settings
from bussrv.values import Publication

OVERHEAD = 512
"""A retained publication counts as so many bytes, besides its payload and the name of its service."""


class Retained:
    """Publications by service. Bounded in all, and for each address that they came from: what does not fit is not
    retained, and nothing makes room for it.

    :param settings: has the limits.
    :param counters: ``retained-full`` counts what did not fit, and ``retained-address-full`` what one address had no
        room for.
    """

    def __init__(self, settings: Settings, counters: Counter[str]) -> None:
        self._settings = settings
        self._counters = counters
        self._kept: dict[str, tuple[Publication, str]] = {}  # each with its address
        self._size = 0
        self._by_address: Counter[str] = Counter()

    def put(self, publication: Publication, address: str = "") -> bool:
        """Retain a publication instead of the last one on its service. An empty payload only removes that.

        :param address: of its client, as sessions have it; empty: it has no share of its own.
        :returns: whether it is retained, or was not to be.
        """
        self.remove(publication.service)
        if not publication.payload:
            return True
        size, settings, key = _size(publication), self._settings, address_key(address)
        if self._size + size > settings.max_retained:
            self._counters["retained-full"] += 1
            return False
        most = settings.max_retained_per_address
        if address and self._by_address[key] + size > most and not is_exempt(address, settings.trusted_network):
            self._counters["retained-address-full"] += 1
            return False
        self._kept[publication.service] = publication, address
        self._count(key, size)
        return True

    def remove(self, service: str) -> None:
        """Retain nothing on a service any more."""
        former = self._kept.pop(service, None)
        if former is not None:
            self._count(address_key(former[1]), -_size(former[0]))

    def _count(self, key: str, size: int) -> None:
        self._size += size
        self._by_address[key] += size
        if not self._by_address[key]:
            del self._by_address[key]

    def get(self, service: str) -> Publication | None:
        """The retained publication on a service."""
        found = self._kept.get(service)
        return None if found is None else found[0]

    def address_of(self, service: str) -> str:
        """The address that the retained publication on a service came from; empty: it is not known."""
        found = self._kept.get(service)
        return "" if found is None else found[1]

    def services(self) -> list[str]:
        """The services that something is retained on."""
        return [*self._kept]


def _size(publication: Publication) -> int:
    return OVERHEAD + len(publication.payload) + len(publication.service)
