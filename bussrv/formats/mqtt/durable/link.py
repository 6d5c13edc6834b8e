"""The link to a durable session: what it is given goes to its client, or into its queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from zope.interface import implementer

from bussrv.formats.mqtt.durable.queue import Queue, QueueClient, Queues
from bussrv.formats.mqtt.encoding import FACTS, Encodings
from bussrv.formats.mqtt.link import MqttLink
from bussrv.plugin import Bundle, IEncoding, IFilteringLink, Traffic
from bussrv.wire.mqtt.packets import VERSION_5, PacketType


@implementer(IFilteringLink)
class DurableLink:
    """Is the session's link for as long as it is there. Its encoding is that of MQTT 5.0, whoever is connected.

    :param queues: puts messages into the queue.
    :param ended: is told the reason when somebody else than the client ends the session for good.
    :ivar queue: what it must not lose.
    :ivar connection: the link to the client, while it is connected.
    :ivar traffic: the counts of the session over all its connections.
    """

    __slots__ = ("_client", "_ended", "_queues", "connection", "encodings", "queue", "session_id", "traffic")

    session_id: str

    def __init__(self, encodings: Encodings, queues: Queues, queue: Queue, ended: Callable[[str], object]) -> None:
        self.queue = queue
        self._queues = queues
        self.traffic = Traffic()
        self.connection: MqttLink | None = None
        self._client: QueueClient | None = None
        self.encodings = encodings
        self._ended = ended

    def opened(self, session_id: str, owner: str) -> None:
        """The session is open.

        :param owner: its owner in the spool.
        """
        self.session_id = self.queue.session_id = session_id
        self.queue.owner = owner

    def connect(self, connection: MqttLink, client: QueueClient) -> None:
        """The client is there."""
        self.connection, self._client = connection, client
        connection.traffic = self.traffic

    def disconnect(self) -> None:
        """The client has gone."""
        self.connection = self._client = None
        self.queue.disconnect()

    @property
    def is_away(self) -> bool:
        """Whether the client is not connected."""
        return self.connection is None

    @property
    def waiting(self) -> int:
        """How many bytes wait for the client, without its queue."""
        return 0 if self.connection is None else self.connection.waiting

    def encoding_for(self, options: dict[str, Any] | None) -> IEncoding:
        """See :class:`ISessionLink`."""
        return self.encodings.of(FACTS, {})

    def encoding_of(self, filters: Mapping[str, dict[str, Any] | None], *, is_alone: bool) -> IEncoding:
        """See :class:`IFilteringLink`."""
        return self.encodings.for_filters(FACTS, self.session_id, filters, is_alone=is_alone)

    def refilter(self, encoding: IEncoding, changed: str, options: dict[str, Any] | None, *, is_there: bool) -> None:
        """See :class:`IFilteringLink`."""
        self.encodings.refilter(encoding, changed, options, is_there=is_there)

    def send(self, bundle: Bundle) -> None:
        """Send packets. Messages of QoS 1 and 2 are kept first. Others are lost if the client is not connected."""
        direct = self._queues.put(self.queue, bundle)
        connection, client = self.connection, self._client
        if connection is None or client is None or not direct:
            return
        if client.form.version != VERSION_5 or client.form.max_packet < bundle.size:
            direct = [each for frame in direct if (each := _fitted(frame, client)) is not None]
        if direct:
            connection.send(Bundle(direct))

    def close(self, reason: str) -> None:
        """The server ends the session for ``reason``."""
        if self.connection is None:
            self._ended(reason)
        else:
            self.connection.close(reason)


def _fitted(frame: bytes, client: QueueClient) -> bytes | None:
    """A packet as the client takes it. Those that are no messages were made for it."""
    return client.form.of(frame) if frame[0] >> 4 == PacketType.PUBLISH else frame
