"""``bus/statistics``: figures of the server as JSON; then, every second while there are subscribers, the changes.

Updates are JSON Merge Patches (RFC 7396). There is none for a second without a change. With a policy, only users with
``admin = "read"`` get them and see the figures: numbers and addresses tell of what others may not see.

::

    {"server":"hall","version":"…","started":"2026-11-21T14:02:03.000000Z","sessions":{"objects":2,"spp":1},"away":{},
     "far":0,"services":4,"subscriptions":3,"links":["cellar"],"inbus":{…},"counters":{"not-subscribed":1}}
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from twisted.internet.task import LoopingCall
from zope.interface import implementer

from bussrv.plugin import EVERYTHING, IFilteredService, IServiceHost, Permissions, format_time
from bussrv.version import VERSION

INTERVAL = 1.0
"""Seconds between updates."""

_encode = msgspec.json.Encoder().encode


@implementer(IFilteredService)
class StatisticsService:
    """Numbers of sessions, services and subscriptions, links, and the counters."""

    def __init__(self, host: IServiceHost) -> None:
        self._host = host
        self._started = host.bus.utc()
        self._told: dict[str, Any] = {}
        self._looked: float | None = None
        self._latest = b""
        self._telling = LoopingCall(self._tell)
        self._telling.clock = host.reactor

    def snapshot(self) -> bytes:
        """The figures that subscribers got last; without subscribers, figures at most a second old."""
        if self._telling.running:
            return _encode(self._told)
        # Counting takes a while with many sessions, and every client may ask.
        now = self._host.reactor.seconds()
        if self._looked is None or now - self._looked >= INTERVAL:
            self._looked = now
            self._latest = _encode(self._look())
        return self._latest

    def snapshot_for(self, permissions: Permissions) -> bytes:
        """All figures for sessions with every permission; for others only facts that identify the server."""
        return self.snapshot() if permissions is EVERYTHING else _encode(self._server())

    def first_subscriber_came(self) -> None:
        """Publish changes every second from now on."""
        self._told = self._look()
        self._telling.start(INTERVAL, now=False)

    def last_subscriber_left(self) -> None:
        """Publish no longer."""
        self._telling.stop()

    def _tell(self) -> None:
        now = self._look()
        patch = merge_patch(self._told, now)
        self._told = now
        if patch:
            update = [_encode(patch)]
            self._host.publish_each(lambda permissions: update if permissions is EVERYTHING else [])

    def _server(self) -> dict[str, Any]:
        server_id = self._host.bus.server_id
        return {"server": server_id, "version": VERSION, "started": format_time(self._started)}

    def _look(self) -> dict[str, Any]:
        bus = self._host.bus
        state = bus.registry.state
        own, away = Counter[str](), Counter[str]()
        for session in state.sessions.values():
            if session.home is None:
                (away if session.is_away else own)[session.protocol] += 1
        return {
            **self._server(),
            "sessions": dict(sorted(own.items())),
            "away": dict(sorted(away.items())),
            "far": len(state.sessions) - sum(own.values()) - sum(away.values()),
            "services": len(state.services),
            "subscriptions": sum(map(len, state.subscriptions.values())),
            "links": bus.links.neighbors(),
            **bus.reports(),
            "counters": {name: count for name, count in sorted(bus.counters.items()) if count},
        }


def merge_patch(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The JSON Merge Patch (RFC 7396) from ``before`` to ``now``. No value in ``now`` may be ``None``."""
    patch: dict[str, Any] = {name: None for name in before if name not in now}
    for name, value in now.items():
        if name not in before:
            patch[name] = value
        elif isinstance(value, dict) and isinstance(before[name], dict):
            inner = merge_patch(before[name], value)
            if inner:
                patch[name] = inner
        elif type(value) is not type(before[name]) or value != before[name]:
            patch[name] = value
    return patch


make = StatisticsService
"""See :meth:`bussrv.interfaces.IHostedService.make`."""
