"""Posts incidents to a URL, as JSON. An answer that leads elsewhere is a failure."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred

from bussrv.admin.incidents.outbox import NotSent
from bussrv.net.posting import NotPosted, Poster


class Webhook:
    """The sender of one URL.

    :param url: the URL. It may hold a secret.
    """

    def __init__(self, url: str, reactor: Any) -> None:
        self._url = url
        self._poster = Poster(reactor)
        self.host = urlsplit(url).hostname

    def __call__(self, text: bytes, event: str) -> Deferred[None]:
        """Post a message. :returns: fires when the other side has taken it; fails with :class:`NotSent`."""
        return Deferred.fromCoroutine(self._post(text, event))

    async def _post(self, text: bytes, event: str) -> None:
        try:
            answer = await self._poster.post(
                self._url, text, {"Content-Type": "application/json", "Bussrv-Incident": event}
            )
        except NotPosted as error:
            raise NotSent(str(error)) from error
        if not 200 <= answer.status < 300:
            raise NotSent(f"{self.host} answered {answer.status}")
