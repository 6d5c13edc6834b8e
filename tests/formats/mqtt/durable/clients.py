"""Clients that behave as MQTT wants them to: what they keep beyond their connections. Pure."""

from __future__ import annotations

from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import Packet, Publish

CONNECTED = 0x80
"""Codes from this one on are refusals."""


class Subscriber:
    """Recognises messages of QoS 2 that it has already.

    :ivar got: the payloads of all messages, by their QoS, in order.
    """

    def __init__(self) -> None:
        self.got: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
        self._begun: set[int] = set()

    def take(self, packet: Packet) -> list[Packet]:
        """A packet came. :returns: the answers."""
        if isinstance(packet, Publish):
            if packet.qos < 2 or packet.id not in self._begun:
                self.got[packet.qos].append(packet.payload)
            if packet.qos == 2:
                self._begun.add(packet.id)
                return [packets.Pubrec(packet.id)]
            return [packets.Puback(packet.id)] if packet.qos else []
        if isinstance(packet, packets.Pubrel):
            self._begun.discard(packet.id)
            return [packets.Pubcomp(packet.id)]
        return []


class Publisher:
    """Sends again what was not acknowledged.

    :ivar open: what is not done, by identifier: the message; ``None``: only its end is not confirmed.
    :ivar asked: the payloads of all messages, by their QoS.
    :ivar acknowledged: the payloads of those that the server took.
    """

    def __init__(self) -> None:
        self.open: dict[int, Publish | None] = {}
        self.asked: dict[int, list[bytes]] = {1: [], 2: []}
        self.acknowledged: dict[int, list[bytes]] = {1: [], 2: []}

    def connected(self, *, is_present: bool) -> list[Packet]:
        """:param is_present: whether its session was there. :returns: what it sends again."""
        if not is_present:
            # The server has lost nothing but the session: what it has taken is not sent again.
            self.open = {number: each for number, each in self.open.items() if each is not None}
        return [
            packets.Pubrel(number) if each is None else Publish(each.topic, each.payload, each.qos, False, number, True)
            for number, each in self.open.items()
        ]

    def publish(self, topic: str, payload: bytes, qos: int) -> Publish:
        """:returns: the packet to send."""
        number = next(each for each in range(1, 1000) if each not in self.open)
        message = self.open[number] = Publish(topic, payload, qos, id=number)
        self.asked[qos].append(payload)
        return message

    def take(self, packet: Packet) -> list[Packet]:
        """A packet came. :returns: the answers."""
        if isinstance(packet, packets.Pubcomp):
            self.open.pop(packet.id, None)
        elif isinstance(packet, packets.Puback | packets.Pubrec):
            message = self.open.pop(packet.id, None)
            if packet.code >= CONNECTED:
                return []
            if message is not None:
                self.acknowledged[message.qos].append(message.payload)
            if isinstance(packet, packets.Pubrec):
                self.open[packet.id] = None
                return [packets.Pubrel(packet.id)]
        return []
