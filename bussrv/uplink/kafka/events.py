"""Sends the sealed records of a journal to a topic: in order, each exactly once.

1. The producer of Kafka has a transactional id that is made of the id of the server. To open it fences every earlier
   producer of that id: what an uplink that was killed had sent and not committed is aborted, and comes never.
2. The last committed record of the server in the topic says where to go on.
3. Each page of sealed records is a transaction.

After any failure these steps are done anew. So there is no gap, and who reads committed records only
(``isolation.level=read_committed``) sees each record once. Others may see records of aborted transactions, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import IllegalOperation, KafkaError, MessageSizeTooLargeError

from bussrv.uplink.figures import Figures
from bussrv.uplink.kafka.cluster import Cluster, opened
from bussrv.uplink.kafka.faults import tried
from bussrv.uplink.kafka.position import find_position, headers_of
from bussrv.uplink.kafka.sealed import SealedJournal, SealedRecord
from bussrv.uplink.lines import Lines
from bussrv.uplink.retry import Retry
from bussrv.uplink.stopping import UplinkError, or_stopped

POLL_SECONDS = 0.2
"""The seconds between two looks for further seals."""

SEND_SECONDS = 60.0
"""The limit for a page. After it, everything is done anew."""

MOST_OF_HEADERS = 1000
"""The most bytes of a record besides its value: key, headers, and what Kafka adds."""

TRANSACTION_TIMEOUT = 60_000
"""Milliseconds after which a broker aborts a transaction of an uplink that does not end it."""


class EventsFigures:
    """The figures of the events that are sent."""

    def __init__(self, figures: Figures) -> None:
        self.sent = figures.counter("events_sent", "Records of the journal that Kafka has committed")
        self.failures = figures.counter("events_failures", "Failed attempts to send records of the journal")
        self.missing = figures.counter("events_missing", "Records of the journal that are gone, and were left out")
        self.last_sent = figures.gauge("events_last_sent", "Number of the last record that Kafka has committed")
        self.last_sealed = figures.gauge("events_last_sealed", "Number of the last sealed record")


@dataclass(frozen=True)
class Destination:
    """The topic for events.

    :ivar max_bytes: the most bytes of one record, with its headers.
    """

    cluster: Cluster
    topic: str
    max_bytes: int


class EventsSender:
    """Sends records until it is told to stop.

    :param from_oldest: whether it may begin with the oldest record that is left, although Kafka may have had others.
    :param stop: is set when the program is to stop.
    """

    def __init__(
        self,
        destination: Destination,
        journal: SealedJournal,
        figures: EventsFigures,
        log: Lines,
        stop: asyncio.Event,
        *,
        from_oldest: bool = False,
    ) -> None:
        self._to = destination
        self._journal = journal
        self._figures = figures
        self._log = log
        self._stop = stop
        self._from_oldest = from_oldest
        self._retry = Retry(log, destination.cluster.name, figures.failures, stop)
        self._attempted = 0
        self._refused = 0  # the record that the topic does not take
        self._is_begun = False

    async def run(self) -> None:
        """Send until ``stop`` is set. A page that is being sent is finished first.

        :raises UplinkError: it cannot go on: Kafka refuses, or another uplink does the same work.
        :raises JournalError: the journal is damaged, or another one, or records are gone.
        """
        try:
            while not self._stop.is_set():
                await self._attempt()
        finally:
            self._journal.close()

    async def _attempt(self) -> None:
        """Send over one producer, until something fails or ``stop`` is set."""
        async with tried(self._retry, self._to.topic, self._to.cluster):
            await or_stopped(self._to.cluster.check(), self._stop)
            if self._stop.is_set():
                return
            async with opened(self._producer()) as producer:
                await self._begin()
                await self._send_all(producer)

    def _producer(self) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            **self._to.cluster.arguments(),
            transactional_id=f"bussrv-events-{self._to.topic}-{self._journal.server}",
            transaction_timeout_ms=TRANSACTION_TIMEOUT,
            max_request_size=self._to.max_bytes,
        )

    async def _begin(self) -> None:
        """Find the record to go on with."""
        to, server = self._to, self._journal.server
        position = await find_position(to.cluster, to.topic, server)
        mark = position.mark
        if mark is None and not (position.is_certain or self._from_oldest):
            raise UplinkError(
                f"topic {to.topic} of {to.cluster.name} has no record of server {server}, but Kafka has removed "
                "records from it: nobody can say which were sent. Use --from-oldest to begin with the oldest one of "
                "the journal"
            )
        if self._is_begun and mark is not None and mark.seq > self._attempted:
            raise UplinkError(
                f"another uplink sends the records of server {server} to topic {to.topic} of {to.cluster.name}: it has "
                f"sent record {mark.seq}. Stop one of them"
            )
        await asyncio.to_thread(self._journal.begin, mark)
        self._attempted = max(self._attempted, mark.seq if mark else 0)
        self._figures.last_sent.set(mark.seq if mark else 0)
        self._retry.worked()
        if not self._is_begun:
            self._log.info(
                "uplink: records of server {server} go to topic {topic} of {cluster}, after record {seq}",
                event="uplink.events",
                server=server,
                topic=to.topic,
                cluster=to.cluster.name,
                seq=mark.seq if mark else 0,
            )
        self._is_begun = True

    async def _send_all(self, producer: AIOKafkaProducer) -> None:
        while not self._stop.is_set():
            page = await asyncio.to_thread(self._journal.page)
            self._figures.last_sealed.set(self._journal.last_sealed)
            fitting = list(takewhile(self._fits, page))
            if fitting:
                await asyncio.wait_for(self._watched(self._send(producer, fitting)), SEND_SECONDS)
                self._count(fitting)
            if len(fitting) < len(page):
                raise self._too_large(page[len(fitting)])
            if not page:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), POLL_SECONDS)

    async def _watched(self, sending: Coroutine[Any, Any, None]) -> None:
        await self._retry.watch(sending, self._to.cluster.check)

    def _fits(self, record: SealedRecord) -> bool:
        return record.seq != self._refused and len(record.text) <= self._to.max_bytes - MOST_OF_HEADERS

    def _too_large(self, record: SealedRecord) -> UplinkError:
        whose = "the topic" if record.seq == self._refused else f"--max-bytes {self._to.max_bytes}"
        return UplinkError(
            f"record {record.seq} of server {self._journal.server} has {len(record.text)} bytes, more than {whose} "
            "takes, and is not left out: raise max.message.bytes of the topic, and --max-bytes"
        )

    async def _send(self, producer: AIOKafkaProducer, page: list[SealedRecord]) -> None:
        """Send a page as one transaction.

        :raises KafkaError, IllegalOperation: it failed. The outcome is what the topic has.
        """
        self._attempted = page[-1].seq
        await producer.begin_transaction()
        key, given, closed = self._journal.server.encode(), [], None
        try:
            for record in page:
                given.append(await producer.send(self._to.topic, record.text, key, headers=headers_of(record)))  # noqa: PERF401
        except (IllegalOperation, KafkaError) as error:
            # The outcome of a record before says why.
            closed = error
        outcomes = await asyncio.gather(*given, return_exceptions=True)
        for record, outcome in zip(page, outcomes, strict=False):
            if isinstance(outcome, MessageSizeTooLargeError):
                # The records before it are sent by the next attempt.
                self._refused = record.seq
            if isinstance(outcome, BaseException):
                raise outcome
        if closed is not None:
            raise closed
        await producer.commit_transaction()

    def _count(self, page: list[SealedRecord]) -> None:
        self._figures.sent.inc(len(page))
        self._figures.last_sent.set(page[-1].seq)
        for first, last in (each.missing for each in page if each.missing is not None):
            self._figures.missing.inc(last - first + 1)
            self._log.error(
                "uplink: records {first} to {last} of server {server} are gone, and missing in topic {topic}",
                event="uplink.missing",
                first=first,
                last=last,
                server=self._journal.server,
                topic=self._to.topic,
            )
