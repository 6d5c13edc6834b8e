"""Which topics a cluster has. A topic that may be sent to is asked for once, another one again after a while.

A producer of aiokafka waits for a topic that is not there, and all that follows would wait with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    InvalidTopicError,
    LeaderNotAvailableError,
    NoError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from bussrv.uplink.kafka.cluster import Cluster

AGAIN_SECONDS = 30.0
MOST = 10_000
"""The most topics that are remembered."""


async def describe(admin: AIOKafkaAdminClient, topic: str) -> tuple[type[Exception], list[int]]:
    """What a cluster says of a topic, which it may create now: the kind of an error, and the partitions.

    :raises KafkaError: it cannot be asked.
    """
    found: dict[str, Any]
    (found,) = await admin.describe_topics([topic])
    return for_code(found["error_code"]), [each["partition"] for each in found["partitions"]]


class KnownTopics:
    """The topics of a cluster, as a context manager that connects to it."""

    def __init__(self, cluster: Cluster, seconds: Callable[[], float] = time.monotonic) -> None:
        self._admin = AIOKafkaAdminClient(**cluster.arguments())
        self._name = cluster.name
        self._seconds = seconds
        self._faults: dict[str, tuple[str | None, float]] = {}

    async def __aenter__(self) -> KnownTopics:
        await self._admin.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._admin.close()

    async def fault(self, topic: str) -> str | None:
        """Why nothing can be sent to a topic; ``None``: something can.

        :raises KafkaError: the cluster cannot be asked.
        """
        fault, until = self._faults.get(topic, (None, 0.0))
        if until > self._seconds():
            return fault
        fault = self._words(topic, (await describe(self._admin, topic))[0])
        if len(self._faults) >= MOST:
            self._faults.clear()
        self._faults[topic] = fault, float("inf") if fault is None else self._seconds() + AGAIN_SECONDS
        return fault

    def _words(self, topic: str, kind: type[Exception]) -> str | None:
        if kind in (NoError, LeaderNotAvailableError):
            return None
        if kind is UnknownTopicOrPartitionError:
            return f"{self._name} has no topic {topic}, and does not create it by itself"
        if kind is TopicAuthorizationFailedError:
            return f"{self._name} does not allow this uplink to use topic {topic}"
        if kind is InvalidTopicError:
            return f"{self._name} takes no topic of the name {topic}"
        raise kind(topic)
