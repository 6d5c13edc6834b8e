"""The link to one client of MQTT."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from zope.interface import implementer

from bussrv.formats.mqtt.outgoing import Outgoing, qos_of
from bussrv.plugin import Bundle, IEncoding, IFilteringLink, StreamLink


class Filtering(Protocol):
    """Makes the encoding for the subscriptions of a client; see :class:`IFilteringLink`."""

    def encoding_of(self, filters: Mapping[str, dict[str, Any] | None], *, is_alone: bool) -> IEncoding:
        """The encoding for a client with these subscriptions."""

    def refilter(self, encoding: IEncoding, changed: str, options: dict[str, Any] | None, *, is_there: bool) -> None:
        """One of them changed."""


@implementer(IFilteringLink)
class MqttLink(StreamLink):
    """Sends messages. Those of QoS 1 and 2 get their packet identifiers here.

    :ivar outgoing: these messages, once the client has subscribed with such a QoS; ``None``: all bytes are shared.
    :ivar filtering: makes the encoding for the client's subscriptions.
    :ivar most_waiting: how many bytes may wait for acknowledgements of the client.
    :ivar too_much_waits: is called when more do.
    """

    outgoing: Outgoing | None = None
    is_away = False
    _is_over = False
    filtering: Filtering
    most_waiting: int
    too_much_waits: Callable[[], object]

    def encoding_of(self, filters: Mapping[str, dict[str, Any] | None], *, is_alone: bool) -> IEncoding:
        """See :class:`IFilteringLink`."""
        return self.filtering.encoding_of(filters, is_alone=is_alone)

    def refilter(self, encoding: IEncoding, changed: str, options: dict[str, Any] | None, *, is_there: bool) -> None:
        """See :class:`IFilteringLink`."""
        self.filtering.refilter(encoding, changed, options, is_there=is_there)

    def send(self, bundle: Bundle) -> None:
        """Send packets, after everything sent before."""
        outgoing = self.outgoing
        if outgoing is None:
            self.pass_on(bundle)
            return
        frames = [frame if not qos_of(frame) else outgoing.add(frame) for frame in bundle.frames]
        ready = [frame for frame in frames if frame is not None]
        if ready:
            self.pass_on(Bundle(ready))
        if outgoing.waiting_size > self.most_waiting and not self._is_over:
            self._is_over = True
            self.too_much_waits()

    def send_numbered(self, frame: bytes) -> None:
        """Send a message that has its packet identifier already."""
        self.pass_on(Bundle([frame]))

    def pass_on(self, bundle: Bundle) -> None:
        """Send packets that have their identifiers."""
        super().send(bundle)

    def discard(self) -> None:
        """Forget what is queued, and send nothing more."""
        super().discard()
        if self.outgoing is not None:
            self.outgoing.clear()

    @property
    def waiting(self) -> int:
        """How many bytes wait for the client."""
        return super().waiting + (0 if self.outgoing is None else self.outgoing.waiting_size)
