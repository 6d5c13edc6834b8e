"""Retained publications: the last one on a service that its publisher wants kept, also when it has gone. In memory."""

from __future__ import annotations

from collections import Counter

from bussrv.addresses import address_key, is_exempt
from bussrv.bus.services.last_values import LastValues
from bussrv.settings import Settings
from bussrv.values import OCTET_STREAM, Publication

OVERHEAD = 512
"""A retained publication counts as so many bytes, besides its payload and the name of its service."""


class Retained:
    """Publications by service. Bounded in all, and for each address that they came from: what does not fit is not
    retained, and nothing makes room for it.

    :param settings: has the limits.
    :param counters: ``retained-full`` counts what did not fit, and ``retained-address-full`` what one address had no
        room for.
    :param last_values: those of all services.
    """

    def __init__(self, settings: Settings, counters: Counter[str], last_values: LastValues) -> None:
        self._last_values = last_values
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

    def or_last(self, service: str) -> Publication | None:
        """The retained publication on a service. If there is none: the last one of its providers, unless their wire
        format retains some itself, so that it has :attr:`Publication.own`.
        """
        retained, payload = self.get(service), self._last_values.get(service)
        if retained is not None or not payload:
            return retained
        last = self._last_values.about(service)
        if not isinstance(last, Publication):
            return Publication(service, last or OCTET_STREAM, payload)
        return last if last.own is None else None

    def services_or_last(self) -> list[str]:
        """The services on which :meth:`or_last` may find something."""
        return [*dict.fromkeys([*self._kept, *self._last_values.services()])]

    def services(self) -> list[str]:
        """The services that something is retained on."""
        return [*self._kept]


def _size(publication: Publication) -> int:
    return OVERHEAD + len(publication.payload) + len(publication.service)
