"""MQTT over WebSocket: the binary messages of a client, one after the other, are a stream of packets.

A message may hold several packets, and a packet may span messages [MQTT-6.0.0-2]. A text message is malformed
[MQTT-6.0.0-1]. Source: section 6.
"""

from __future__ import annotations

from bussrv.errors import RemoteProtocolError
from bussrv.wire.frames import MOST_FRAGMENTS, Control, Fragment, FrameReader, Nothing
from bussrv.wire.mqtt.packets import Packet
from bussrv.wire.mqtt.reader import MqttReader

SUBPROTOCOL = "mqtt"
"""The name that a client has to offer in ``Sec-WebSocket-Protocol`` [MQTT-6.0.0-3]."""


class FramedMqttReader:
    """Reads packets from the messages of one connection, and control frames; see :meth:`take_control`.

    :param packets: reads the packets.
    :ivar frames: reads the frames.
    :ivar has_more: whether reading stopped so that other clients are served, although there are more bytes.
    :ivar size: how many bytes of packets came so far.
    """

    def __init__(self, packets: MqttReader) -> None:
        self.frames = FrameReader(SUBPROTOCOL, takes_text=False)
        self.has_more = False
        self.size = 0
        self._packets = packets
        self._control: Control | None = None
        self._error: RemoteProtocolError | None = None

    def __len__(self) -> int:
        """How many bytes wait to be read."""
        return len(self.frames) + len(self._packets)

    def feed(self, data: bytes) -> None:
        """Add a chunk. To be followed by :meth:`next_event`."""
        self.frames.feed(data)

    def clear(self) -> None:
        """Forget what waits; nothing more comes."""
        self.frames.clear()
        self._packets.clear()

    def take_control(self) -> Control | None:
        """Take the upgrade, ping or close frame that is next; ``None``: another thing is next.

        No further frame is read before it is taken.
        """
        control, self._control = self._control, None
        return control

    def next_event(self) -> Packet | None:
        """The next packet; ``None``: more bytes are needed, or :meth:`take_control` or :attr:`has_more` says why.

        :raises RemoteProtocolError: the client sent something malformed; every later call raises it again.
        """
        packet = self._packets.next_event()
        if packet is None and self._control is None and self._error is None:
            self._read_frames()
            packet = self._packets.next_event()
        if packet is None and self._control is None and self._error is not None:
            raise self._error
        return packet

    def _read_frames(self) -> None:
        """Read frames as far as a control frame or a fault: the packets in them are next."""
        parts: list[bytes] = []
        self.has_more = False
        try:
            for _ in range(MOST_FRAGMENTS):
                found = self.frames.read()
                if isinstance(found, Fragment):
                    parts.append(found.payload)
                elif not isinstance(found, Nothing):
                    self._control = found
                    break
            else:
                self.has_more = True
        except RemoteProtocolError as error:
            self._error = error
        # In one piece: packets are read together then, however many messages they came in.
        data = b"".join(parts)
        if data:
            self.size += len(data)
            self._packets.feed(data)
