"""Clients of a server, and an uplink beside them."""

from __future__ import annotations

from aiokafka.structs import ConsumerRecord

from bussrv.client.aio import Subscription
from bussrv.client.events import Gap, Message
from tests.forked import ForkedServer
from tests.forked_uplink import ForkedUplink
from tests.uplink.kafka.broker import Broker

PATIENCE = 30.0


def address(server: ForkedServer) -> str:
    return f"bus://127.0.0.1:{server.port('objects')}"


def joined(server: ForkedServer, broker: Broker, prefix: str, *arguments: str) -> ForkedUplink:
    """An uplink that runs, and has subscribed."""
    return ForkedUplink(broker.url, "--bus", address(server), "--id", "hall", "--prefix", prefix, *arguments)


def headers_of(record: ConsumerRecord) -> dict[str, bytes]:
    return dict(record.headers)


async def take(events: Subscription[Message], count: int) -> list[Message | Gap]:
    found: list[Message | Gap] = []
    while len(found) < count:
        taken = await events.take(count - len(found), PATIENCE)
        assert taken, found
        found += taken
    return found
