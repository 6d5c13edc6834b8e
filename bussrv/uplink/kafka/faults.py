"""Which errors of Kafka pass by themselves, and one sentence about each of the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import errors

from bussrv.client.errors import BusError
from bussrv.uplink.kafka.cluster import Cluster
from bussrv.uplink.retry import Retry
from bussrv.uplink.stopping import TakenOver, UplinkError

DENIED = (
    errors.TopicAuthorizationFailedError,
    errors.GroupAuthorizationFailedError,
    errors.ClusterAuthorizationFailedError,
    errors.TransactionalIdAuthorizationFailed,
)

LOGIN = (
    errors.AuthenticationFailedError,
    errors.AuthenticationMethodNotSupported,
    errors.SaslAuthenticationFailed,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
)

PASSING = (errors.KafkaError, errors.IllegalOperation, OSError, asyncio.TimeoutError)
"""Errors that may pass, unless :func:`lasting` has a sentence about them."""

FENCED = (errors.ProducerFenced, errors.InvalidProducerEpoch)


@asynccontextmanager
async def tried(retry: Retry, topic: str, to: Cluster) -> AsyncIterator[None]:
    """One attempt. After a failure that may pass, it ends with a pause.

    :raises UplinkError: it does not pass by itself.
    """
    try:
        yield
    except PASSING as error:
        if isinstance(error, BusError):
            raise
        if (sentence := lasting(error, topic, to)) is not None:
            raise sentence from error
        await retry.failed(said(error))


def lasting(error: BaseException, topic: str, to: Cluster) -> UplinkError | None:
    """The sentence about an error that does not pass by itself; ``None``: it may pass.

    :param topic: the topic that it is about.
    """
    cluster = to.name
    who = "this uplink, which has no login," if to.sasl is None else f"user {to.sasl.user}"
    if isinstance(error, LOGIN):
        return UplinkError(f"{cluster} does not accept the login of {who}: {said(error)}")
    if isinstance(error, errors.TransactionalIdAuthorizationFailed):
        return UplinkError(f"{cluster} does not allow {who} to use the transactional id of the uplink: {said(error)}")
    if isinstance(error, DENIED):
        return UplinkError(f"{cluster} does not allow {who} to use topic {topic}: {said(error)}")
    if isinstance(error, errors.InvalidTopicError):
        return UplinkError(f"{cluster} takes no topic of the name {topic}")
    if isinstance(error, FENCED):
        return TakenOver(f"another uplink of the same server sends to topic {topic} of {cluster} now: stop one of them")
    if isinstance(error, (errors.UnsupportedVersionError, errors.IncompatibleBrokerVersion)):
        return UplinkError(
            f"{cluster} is too old: transactions of Kafka are needed, version 2.5 or later: {said(error)}"
        )
    return None


def said(error: BaseException) -> str:
    """An error, for people: its words or its name, and those of the error that it comes of."""
    words = " ".join(map(str, error.args)) or type(error).__name__
    return words if error.__cause__ is None else f"{words}: {said(error.__cause__)}"
