"""Sends publications from the bus to Kafka.

What the uplink has received waits in a bounded queue until Kafka has acknowledged it. If the queue is full, the oldest
publications are dropped, and counted. What waits is lost if the uplink is killed. If an answer of Kafka is lost for
longer than its client tries, a publication is sent again, and is there twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    InvalidTopicError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
)

from bussrv.client.aio import Bus, Subscription
from bussrv.client.events import Gap, Message
from bussrv.uplink.figures import Figures
from bussrv.uplink.kafka.cluster import Cluster, opened
from bussrv.uplink.kafka.faults import PASSING, said, tried
from bussrv.uplink.kafka.publications import Outbound, Wanted
from bussrv.uplink.kafka.topics import NoTopic
from bussrv.uplink.kafka.topics_there import KnownTopics
from bussrv.uplink.lines import Lines, RareLines
from bussrv.uplink.retry import Retry
from bussrv.uplink.stopping import or_stopped

QUEUE = 10_000
QUEUE_BYTES = 16 << 20
"""The most publications that wait, and the most bytes of them."""

PAGE = 500

REFUSED = (MessageSizeTooLargeError, RecordListTooLargeError, InvalidTopicError, TopicAuthorizationFailedError)
"""Errors about one publication. The others are not concerned."""


class OutgoingFigures:
    """The figures of the publications that are sent to Kafka."""

    def __init__(self, figures: Figures) -> None:
        self.sent = figures.counter("out_sent", "Publications that Kafka has acknowledged")
        self.skipped = figures.counter("out_skipped", "Publications that came from Kafka, and are not sent there again")
        self.lost = figures.counter("out_lost", "Publications that were dropped since too many waited, or at the end")
        self.refused = figures.counter("out_refused", "Publications that Kafka does not take")
        self.failures = figures.counter("out_failures", "Failed attempts to send publications")


class Outgoing:
    """Sends until it is told to stop.

    :param max_bytes: the most bytes of a record.
    """

    def __init__(
        self,
        cluster: Cluster,
        wanted: Wanted,
        figures: OutgoingFigures,
        log: Lines,
        stop: asyncio.Event,
        *,
        max_bytes: int,
    ) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._figures = figures
        self._lines = log
        self._log = RareLines(log)
        self._stop = stop
        self._max_bytes = max_bytes
        self._retry = Retry(log, cluster.name, figures.failures, stop)
        self._unsent: deque[Outbound] = deque()

    async def run(self, bus: Bus) -> None:
        """Send what comes from the bus until ``stop`` is set. Then the subscription ends, and what waits is sent.

        :raises UplinkError: Kafka does not accept the login.
        :raises BusError: the server refuses the subscription.
        """
        subscription = bus.subscribe(*self._wanted.services, queue=QUEUE, queue_bytes=QUEUE_BYTES)
        async with AsyncExitStack() as subscribed:
            events = await subscribed.enter_async_context(subscription)
            self._lines.info(
                "uplink: publications go to topics {prefix}… of {cluster}",
                event="uplink.out",
                prefix=self._wanted.prefix,
                cluster=self._cluster.name,
            )
            try:
                while not self._stop.is_set():
                    await self._attempt(events, subscribed.aclose)
            finally:
                await self._take_all(events)
                if self._unsent:
                    self._lose(len(self._unsent), "Kafka did not take them before the end")

    async def _attempt(self, events: Subscription[Message], unsubscribe: Callable[[], Awaitable[None]]) -> None:
        """Send over one producer until something fails, or everything was sent after ``stop`` was set."""
        async with tried(self._retry, f"{self._wanted.prefix}…", self._cluster):
            await or_stopped(self._cluster.check(), self._stop)
            if self._stop.is_set() and not (self._unsent or events.waiting):
                return
            arguments = self._cluster.arguments()
            made = AIOKafkaProducer(**arguments, enable_idempotence=True, max_request_size=self._max_bytes)
            async with opened(made) as producer, KnownTopics(self._cluster) as topics:
                self._retry.worked()
                while not self._stop.is_set():
                    await self._send(producer, topics)
                    self._take(await or_stopped(events.take(PAGE), self._stop) or ())
                # Else what comes while the last ones are sent would be taken from the server, and lost.
                await unsubscribe()
                await self._take_all(events)
                await self._send(producer, topics)

    async def _take_all(self, events: Subscription[Message]) -> None:
        """Take everything that waits, also after the subscription has ended."""
        if events.waiting:
            self._take(await events.take(events.waiting, 0))

    def _take(self, events: Sequence[Message | Gap]) -> None:
        for event in events:
            if isinstance(event, Gap):
                self._lose(event.lost or 0, event.reason)
                continue
            try:
                outbound = self._wanted.outbound(event)
            except NoTopic as error:
                self._refuse(str(error))
                continue
            if outbound is None:
                self._figures.skipped.inc()
            else:
                self._unsent.append(outbound)

    def _lose(self, count: int, reason: str) -> None:
        self._figures.lost.inc(count)
        self._log.warn(
            "uplink: {count} publications are lost: {reason}",
            event="uplink.out-lost",
            count=count or "an unknown number of",
            reason=reason,
        )

    def _refuse(self, reason: str) -> None:
        self._figures.refused.inc()
        self._log.warn("uplink: a publication is not sent: {reason}", event="uplink.out-refused", reason=reason)

    async def _send(self, producer: AIOKafkaProducer, topics: KnownTopics) -> None:
        """Send what is unsent.

        :raises KafkaError: some of it stays unsent.
        """
        given: list[tuple[Outbound, asyncio.Future[object]]] = []
        failure: BaseException | None = None
        while self._unsent:
            outbound = self._unsent[0]
            try:
                if (fault := await topics.fault(outbound.topic)) is None:
                    future = await producer.send(outbound.topic, outbound.value, outbound.key, headers=outbound.headers)
                    given.append((outbound, future))
                else:
                    self._refuse(fault)
            except REFUSED as error:
                self._refuse(f"topic {outbound.topic}: {said(error)}")
            except PASSING as error:
                failure = error
                break
            self._unsent.popleft()
        try:
            outcomes = await self._retry.watch(_outcomes([future for _, future in given]), self._cluster.check)
        except asyncio.CancelledError:
            self._unsent.extendleft(outbound for outbound, _ in reversed(given))
            raise
        again: list[Outbound] = []
        for (outbound, _), outcome in zip(given, outcomes, strict=True):
            if isinstance(outcome, REFUSED):
                self._refuse(f"topic {outbound.topic}: {said(outcome)}")
            elif isinstance(outcome, BaseException):
                again.append(outbound)
                failure = failure or outcome
            else:
                self._figures.sent.inc()
        self._unsent.extendleft(reversed(again))
        if failure is not None:
            raise failure


async def _outcomes(sent: Sequence[asyncio.Future[object]]) -> list[object]:
    return list(await asyncio.gather(*sent, return_exceptions=True))
