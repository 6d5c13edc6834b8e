"""The last record of a server in a topic of events, to go on from.

The topic itself says what was sent. So nothing has to be kept beside it, and nothing can disagree with it. A record of
events has these headers; its key is the id of the server, and its value is the line of the journal.

| header | value |
|---|---|
| ``seq`` | the number of the record, in decimal digits |
| ``hash`` | the SHA-256 of the value, in hexadecimal digits: ``prev`` of the next line of the journal |
| ``boot`` | the boot of the server |
| ``missing`` | only if records are gone: the first and the last of those that should come before, as ``5-17`` |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import NoError, UnknownTopicOrPartitionError
from aiokafka.structs import ConsumerRecord
from msgspec import Struct

from bussrv.uplink.kafka.cluster import Cluster
from bussrv.uplink.kafka.sealed import Mark, SealedRecord
from bussrv.uplink.kafka.topics_there import describe
from bussrv.uplink.stopping import UplinkError

WINDOW = 100
"""So many offsets before the end are looked at first. A window without a record of the server is followed by a larger
one before it.
"""

GROWTH = 8
POLL = 500
"""Milliseconds of one wait for records."""

Headers = list[tuple[str, bytes]]


class Position(Struct, frozen=True):
    """What a topic has of a server.

    :ivar mark: the last record; ``None``: there is none.
    :ivar is_certain: whether no record of the server was there and is removed. Retention of Kafka may have removed all.
    """

    mark: Mark | None
    is_certain: bool


def headers_of(record: SealedRecord) -> Headers:
    """The headers of a record of events."""
    found = [("seq", b"%d" % record.seq), ("hash", record.hash.encode()), ("boot", record.boot.encode())]
    if record.missing is not None:
        found.append(("missing", b"%d-%d" % record.missing))
    return found


async def partitions_of(cluster: Cluster, topic: str) -> list[TopicPartition]:
    """The partitions of a topic.

    :raises UplinkError: there is no such topic.
    :raises KafkaError: the cluster does not say so.
    """
    admin = AIOKafkaAdminClient(**cluster.arguments())
    try:
        await admin.start()
        kind, found = await describe(admin, topic)
    finally:
        await admin.close()
    if kind is UnknownTopicOrPartitionError:
        raise UplinkError(f"{cluster.name} has no topic {topic}, and does not create it by itself: create it first")
    if kind is not NoError:
        raise kind(topic)
    return [TopicPartition(topic, each) for each in found]


async def find_position(cluster: Cluster, topic: str, server: str) -> Position:
    """The last record of a server in a topic, in whatever partition: the number of partitions may have changed.

    Only committed records count. The caller has fenced earlier uplinks of the server, so nothing is added meanwhile.

    :raises UplinkError: there is no such topic, or a record of the server in it is none of an uplink.
    :raises KafkaError: the cluster cannot be asked.
    """
    partitions = await partitions_of(cluster, topic)
    # The last offset that read_committed sees is held back by transactions of other uplinks. So ask without it.
    everything = AIOKafkaConsumer(**cluster.arguments(), enable_auto_commit=False)
    committed = AIOKafkaConsumer(
        **cluster.arguments(), enable_auto_commit=False, isolation_level="read_committed", auto_offset_reset="none"
    )
    try:
        await everything.start()
        begins = await everything.beginning_offsets(partitions)
        ends = await everything.end_offsets(partitions)
        await committed.start()
        committed.assign(partitions)
        committed.pause(*partitions)
        found = [
            mark
            for each in partitions
            if (mark := await _last_in(committed, each, server, begins[each], ends[each])) is not None
        ]
    finally:
        await everything.stop()
        await committed.stop()
    mark = max(found, key=lambda each: each.seq, default=None)
    return Position(mark, mark is not None or not any(begins.values()))


async def _last_in(
    consumer: AIOKafkaConsumer, partition: TopicPartition, server: str, begin: int, end: int
) -> Mark | None:
    """The last record of a server in a partition, from its end back."""
    size, upper = WINDOW, end
    consumer.resume(partition)
    try:
        while upper > begin:
            lower = max(begin, upper - size)
            last = await _last_between(consumer, partition, server, lower, upper)
            if last is not None:
                return _mark_of(last)
            size, upper = size * GROWTH, lower
    finally:
        consumer.pause(partition)
    return None


async def _last_between(
    consumer: AIOKafkaConsumer, partition: TopicPartition, server: str, lower: int, upper: int
) -> ConsumerRecord | None:
    consumer.seek(partition, lower)
    key, last = server.encode(), None
    while await consumer.position(partition) < upper:
        fetched = await consumer.getmany(partition, timeout_ms=POLL)
        for record in _up_to(upper, fetched.get(partition, ())):
            if record.key == key:
                last = record
    return last


def _up_to(upper: int, records: Sequence[ConsumerRecord]) -> Iterable[ConsumerRecord]:
    return (each for each in records if each.offset < upper)


def _mark_of(record: ConsumerRecord) -> Mark:
    """:raises UplinkError: it is not written by an uplink."""
    headers = dict(record.headers)
    place = f"topic {record.topic}, partition {record.partition}, offset {record.offset}"
    try:
        return Mark(int(headers["seq"]), headers["hash"].decode(), headers["boot"].decode(), place)
    except (KeyError, ValueError) as error:
        raise UplinkError(
            f"{place} has the key of this server, and is no record of an uplink: use another topic"
        ) from error
