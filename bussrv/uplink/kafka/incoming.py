"""Takes records from Kafka, and publishes them on the bus.

The offset of a record is committed when the server has taken the publication, or has refused it for good. So after a
failure, records come again whose commit was lost: each is published at least once.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import ConsumerRecord

from bussrv.client.aio import Bus
from bussrv.client.core.names import is_wide
from bussrv.client.errors import BusError, Closed, Lost, Offline, TimedOut
from bussrv.errors import JOURNAL_UNAVAILABLE
from bussrv.uplink.figures import Figures
from bussrv.uplink.kafka.cluster import Cluster, opened
from bussrv.uplink.kafka.faults import tried
from bussrv.uplink.kafka.publications import FROM_KAFKA, Inbound, Wanted
from bussrv.uplink.kafka.topics import topic_of
from bussrv.uplink.lines import Lines, RareLines
from bussrv.uplink.retry import Retry
from bussrv.uplink.stopping import or_stopped

PAGE = 100
"""The most records that are published before the first of them is confirmed."""

FETCH_BYTES = 8 << 20
"""The most bytes that are fetched at once, except for a single larger record."""

POLL = 500
"""Milliseconds of one wait for records."""

REFRESH = 30_000
"""Milliseconds between two looks for new topics."""

TOO_LARGE = frozenset({"payload-too-large", "metadata-too-large"})
"""Reasons for which a server ends the connection."""


class IncomingFigures:
    """The figures of the records that are taken from Kafka."""

    def __init__(self, figures: Figures) -> None:
        self.published = figures.counter("in_published", "Records of Kafka that the server has taken as publications")
        self.skipped = figures.counter("in_skipped", "Records of Kafka that this uplink has sent, or that nobody wants")
        self.refused = figures.counter("in_refused", "Records of Kafka that the server does not take")
        self.failures = figures.counter("in_failures", "Failed attempts to take records, or to publish them")


class Incoming:
    """Takes records until it is told to stop."""

    def __init__(
        self, cluster: Cluster, wanted: Wanted, figures: IncomingFigures, log: Lines, stop: asyncio.Event
    ) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._figures = figures
        self._lines = log
        self._log = RareLines(log)
        self._is_begun = False
        self._is_first_look = True
        self._stop = stop
        self._retry = Retry(log, cluster.name, figures.failures, stop)
        self._bus_retry = Retry(log, "the server", figures.failures, stop)

    async def run(self, bus: Bus) -> None:
        """Publish until ``stop`` is set.

        :raises UplinkError: Kafka does not accept the login, or allows too little.
        :raises BusError: the server does not accept the login.
        """
        while not self._stop.is_set():
            await self._attempt(bus)

    async def _attempt(self, bus: Bus) -> None:
        async with tried(self._retry, f"{self._wanted.prefix}…", self._cluster):
            await or_stopped(self._cluster.check(), self._stop)
            if self._stop.is_set():
                return
            async with opened(self._consumer()) as consumer:
                begun = await self._begin_new(consumer, set())
                self._retry.worked()
                if not self._is_begun:
                    self._is_begun = True
                    self._lines.info(
                        "uplink: records of topics {prefix}… of {cluster} are published",
                        event="uplink.in",
                        prefix=self._wanted.prefix,
                        cluster=self._cluster.name,
                    )
                await self._take_all(consumer, bus, begun)

    def _consumer(self) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            **self._cluster.arguments(),
            group_id=group_of(self._wanted),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            metadata_max_age_ms=REFRESH,
            fetch_max_bytes=FETCH_BYTES,
        )
        services, prefix = self._wanted.services, self._wanted.prefix
        if any(map(is_wide, services)):
            consumer.subscribe(pattern=f"^{re.escape(prefix)}")
        else:
            consumer.subscribe([topic_of(prefix, each) for each in services])
        return consumer

    async def _take_all(self, consumer: AIOKafkaConsumer, bus: Bus, begun: set[TopicPartition]) -> None:
        while not self._stop.is_set():
            begun = await self._begin_new(consumer, begun)
            fetched = await consumer.getmany(timeout_ms=POLL, max_records=PAGE)
            for partition, records in fetched.items():
                if not await self._publish_all(records, bus):
                    return
                await consumer.commit({partition: records[-1].offset + 1})

    async def _begin_new(self, consumer: AIOKafkaConsumer, begun: set[TopicPartition]) -> set[TopicPartition]:
        """Commit the place in partitions that the group has never read: their ends if the group is new, and otherwise
        their beginnings, since these partitions are new. So no record is left out after a failure.

        :param begun: partitions whose place is committed.
        :returns: these, as they are now.
        """
        assigned: set[TopicPartition] = set(consumer.assignment())
        unread = [each for each in assigned - begun if await consumer.committed(each) is None]
        if self._is_first_look and len(unread) == len(assigned):
            await consumer.seek_to_end(*unread)
        self._is_first_look = False
        for each in unread:
            await consumer.commit({each: await consumer.position(each)})
        return assigned

    async def _publish_all(self, records: Sequence[ConsumerRecord], bus: Bus) -> bool:
        """Publish records in order, until the server has taken or refused each of them.

        :returns: whether it has; otherwise ``stop`` was set before.
        """
        wanted = [each for each in map(self._wanted.inbound, records) if each is not None]
        self._figures.skipped.inc(len(records) - len(wanted))
        size = PAGE
        while wanted:
            chunk = wanted[:size]
            outcomes = await asyncio.gather(*(self._publish(each, bus) for each in chunk), return_exceptions=True)
            # Those after one that failed are published again, since they have to come after it.
            failed = [_may_pass(each, len(chunk)) for each in outcomes]
            done = failed.index(True) if True in failed else len(chunk)
            for inbound, outcome in zip(chunk[:done], outcomes, strict=False):
                self._count(inbound, outcome)
            del wanted[:done]
            if done == len(chunk):
                continue
            if _is_too_large(outcomes[done]):
                # The connection ended because of one of them. Only alone it is known which.
                size = 1
                continue
            await self._bus_retry.failed(outcomes[done])
            if self._stop.is_set():
                return False
        self._bus_retry.worked()
        return True

    async def _publish(self, inbound: Inbound, bus: Bus) -> None:
        await bus.publish(
            inbound.service,
            inbound.payload,
            type=inbound.type,
            confirm=True,
            **{FROM_KAFKA.replace("-", "_"): self._wanted.uplink},
        )

    def _count(self, inbound: Inbound, outcome: BaseException | None) -> None:
        """:raises BaseException: the outcome, if it is not about this publication."""
        if outcome is None:
            self._figures.published.inc()
            return
        if isinstance(outcome, Closed) or not isinstance(outcome, BusError):
            raise outcome
        self._figures.refused.inc()
        self._log.warn(
            "uplink: a record of Kafka is not published on {service}: {reason}",
            event="uplink.in-refused",
            service=inbound.service,
            reason=outcome,
        )


def group_of(wanted: Wanted) -> str:
    """The consumer group of an uplink."""
    return f"bussrv-{wanted.uplink}"


def _is_too_large(outcome: BaseException | None) -> bool:
    return isinstance(outcome, Lost) and outcome.reason in TOO_LARGE


def _may_pass(outcome: BaseException | None, size: int) -> bool:
    """Whether the server may take a publication later that was published with others.

    :param size: how many they were.
    """
    if _is_too_large(outcome):
        return size > 1
    is_away = isinstance(outcome, (Lost, Offline, TimedOut))
    return is_away or (isinstance(outcome, BusError) and outcome.reason == JOURNAL_UNAVAILABLE)
