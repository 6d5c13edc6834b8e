"""SPP clients that never subscribed. They may wait for a service as long as they like, so only their number is limited.

Beyond a limit the client goes that has waited longest, of the address with most of them. So one address cannot keep out
others, and whoever comes back gets in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from bussrv.counts.tally import Tally
from bussrv.plugin import OverLimit, Settings, address_key, is_exempt

Client = TypeVar("Client")

GRACE = 1.0
"""Seconds until a client counts as silent: many that come back at once all subscribe, but not before they are offered
something."""


class SilentClients(Generic[Client]):
    """The silent clients of one port.

    :param turn_out: ends the session of a client, and is told which limit there were too many for.
    :param reactor: calls later.
    """

    def __init__(self, settings: Settings, turn_out: Callable[[Client, OverLimit], None], reactor: Any) -> None:
        self._settings = settings
        self._turn_out = turn_out
        self._reactor = reactor
        self._arriving: OrderedDict[Client, tuple[str, float]] = OrderedDict()
        self._by_key: dict[str, OrderedDict[Client, None]] = {}
        self._keys: dict[Client, str] = {}
        self._tally: Tally[str] = Tally()
        self._call: Any = None

    def enter(self, client: Client, peer: str) -> None:
        """A client at the address ``peer`` has said nothing yet."""
        self._arriving[client] = peer, self._reactor.seconds() + GRACE
        if self._call is None:
            self._call = self._reactor.callLater(GRACE, self._count)

    def leave(self, client: Client) -> None:
        """A client is silent no longer, or gone."""
        if self._arriving.pop(client, None) is None and client in self._keys:
            key = self._keys.pop(client)
            self._tally.remove(key)
            del self._by_key[key][client]
            if not self._by_key[key]:
                del self._by_key[key]
        if not self._arriving and self._call is not None:
            self._call.cancel()
            self._call = None

    def _count(self) -> None:
        """Count those whose time has come."""
        self._call = None
        while self._arriving:
            client, (peer, due) = next(iter(self._arriving.items()))
            left = due - self._reactor.seconds()
            if left > 0:
                self._call = self._reactor.callLater(left, self._count)
                return
            del self._arriving[client]
            self._counted(client, peer)

    def _counted(self, client: Client, peer: str) -> None:
        key = address_key(peer)
        self._keys[client] = key
        self._tally.add(key)
        self._by_key.setdefault(key, OrderedDict())[client] = None
        most, most_of_address = self._settings.spp_max_silent, self._settings.spp_max_silent_per_address
        if len(self._by_key[key]) > most_of_address and not is_exempt(peer, self._settings.trusted_network):
            self._turn_out_oldest(key, f"from {key}", "spp-max-silent-per-address", most_of_address)
        elif len(self._keys) > most:
            self._turn_out_oldest(self._tally.fullest(), "in all", "spp-max-silent", most)

    def _turn_out_oldest(self, key: str, which: str, limit: str, most: int) -> None:
        oldest = next(iter(self._by_key[key]))
        self.leave(oldest)
        self._turn_out(oldest, OverLimit("too-many-silent", f"more than {most} silent clients {which}", limit, most))
