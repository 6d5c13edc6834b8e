"""Providers that go before they answered: each asker is told at once, so that it does not wait for its time-out.

A request of which nobody is left that may reply is answered with ``error`` ``provider-gone``, once, and is closed. That
happens when the provider's session ends, when it provides the service no longer, and when the link to it is lost. If
nobody registered the service, the only session that may answer is its provider; of two it is not known which one is.
Over a link the error goes the way of a reply: each server on it looks whether others may still reply.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bussrv.bus.interfaces import TellSession
from bussrv.bus.requests.open_requests import OpenRequests
from bussrv.bus.requests.records import OpenRequest
from bussrv.bus.shared import Shared
from bussrv.turns.slices import by_steps
from bussrv.values import quoted

REASON = "provider-gone"


class GoneProviders:
    """Tells the askers of forsaken requests.

    :param tell: tells a client, unless it wants nothing at all, or a linked server.
    """

    def __init__(
        self,
        shared: Shared,
        requests: OpenRequests,
        tell: TellSession,
    ) -> None:
        self._registry = shared.registry
        self._requests = requests
        self._tell = tell
        self._counters = shared.counters
        self._slices = shared.slices
        self._seconds = shared.reactor.seconds
        self._server_id = shared.server_id
        self._is_telling = False

    def session_closed(self, session_id: str) -> None:
        """A session ended: a client, or a link."""
        self._requests.forget(session_id)
        self._tell_soon()

    def unregistered(self, session_id: str, service: str) -> None:
        """A session of this server provides a service no longer."""
        self._requests.forget_provider(session_id, service)
        self._tell_soon()

    def gone_behind(self, link: str, routing_id: str, services: Iterable[str]) -> None:
        """A session of another server provides some services no longer, says the server at the other end of a link.

        Its earlier replies came over the same link, so they were routed already.
        """
        for service in services:
            self._requests.forget_provider(link, service, behind=routing_id)
        self._tell_soon()

    def nobody_over(self, link: str, ask: OpenRequest) -> None:
        """Nobody who may answer a request is left over a link, says the server at its other end."""
        self._requests.forget_link(ask, link)
        self._tell_soon()

    def _tell_soon(self) -> None:
        if self._requests.forsaken and not self._is_telling:
            self._is_telling = True
            self._slices.do(by_steps(self._tell_all(), self._seconds))

    def _tell_all(self) -> Iterator[None]:
        forsaken = self._requests.forsaken
        try:
            while forsaken:
                self._look_at(forsaken.popleft())
                yield
        finally:
            self._is_telling = False

    def _look_at(self, ask: OpenRequest) -> None:
        if not self._requests.is_open(ask) or ask.is_answered:
            return
        if not self._requests.may_be_answered(ask):
            self._requests.close(ask)
            asker = ask.asker.session
            if asker != ask.asked.session and asker in self._registry.state.sessions:
                self._tell_asker(ask)

    def _tell_asker(self, ask: OpenRequest) -> None:
        self._counters[REASON] += 1
        service = ask.asked.service
        whose = "the provider" if service is None else f"the provider of {quoted(service)}"
        about = {"reason": REASON, "message": f"{whose} went before it answered"}
        behind = {"to": ask.routing_id, "route": [self._server_id]} if ask.asker.is_remote else {}
        self._tell(ask.asker.session, {"event": "error", "in-reply-to": ask.id, **behind, **about})
