"""Publications on their way to subscribers: those of a batch are collected, and encoded together for each service."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import partial
from typing import Protocol, runtime_checkable

from bussrv.bus.groups.fanout import Fanout, Group
from bussrv.bus.groups.frames import Delivery
from bussrv.bus.groups.receivers import Receivers
from bussrv.bus.services.bridge import as_publication
from bussrv.bus.services.last_values import LastValues
from bussrv.bus.services.traffic import ServiceTraffic
from bussrv.values import Publication
from bussrv.wire.objects import BusObject


@runtime_checkable
class BatchEncoding(Protocol):
    """An encoding of publications that asks for nothing but the service and the payload."""

    def encode_batch(self, service: str, payloads: Sequence[bytes]) -> list[bytes]:
        """The frames of some publications on a service, those left out that cannot be encoded."""


@runtime_checkable
class RunEncoding(Protocol):
    """An encoding of publications that is faster with several that differ in nothing but their payloads."""

    def encode_run(self, publications: Sequence[Publication]) -> list[bytes]:
        """The frames of some publications, those left out that cannot be encoded."""


Topic = tuple[str, str]
"""A service, and the content type of publications on it."""


class Publisher:
    """Gives publications to the subscribers of their services: those of a batch together, and others one by one.

    :param traffic: counts them.
    """

    def __init__(self, receivers: Receivers, fanout: Fanout, last_values: LastValues, traffic: ServiceTraffic) -> None:
        self._receivers = receivers
        self._fanout = fanout
        self._shares = receivers.filtering.shares
        self._last_values = last_values
        self._traffic = traffic
        self._topic: Topic = ("", "")
        self._payloads: list[bytes] = []

    def collects(self, publication: Publication) -> Topic | None:
        """The topic of a publication, if all of its subscribers can be given batches."""
        service = publication.service
        groups = self._receivers.subscribed_to(service)
        if self._shares.covers(service) or not all(isinstance(group.encoding, BatchEncoding) for group in groups):
            return None
        return service, publication.content_type

    def collect(self, topic: Topic, payload: bytes) -> None:
        """Collect a publication on a topic that :meth:`collects` named."""
        if topic is not self._topic:
            self._change_topic(topic)
        self._payloads.append(payload)

    def collect_all(self, topic: Topic, payloads: Sequence[bytes]) -> None:
        """Collect some publications as :meth:`collect` does."""
        if topic is not self._topic:
            self._change_topic(topic)
        self._payloads += payloads

    def _change_topic(self, topic: Topic) -> None:
        """Subscribers that are given batches ask for no content type: it is that of the last value."""
        if topic[0] != self._topic[0]:
            self.flush_publications()
        self._topic = topic

    def publish(self, obj: BusObject, frame: bytes, provided: Set[str]) -> None:
        """Give subscribers one object by itself, after the collected ones, if it is a publication.

        :param frame: its bytes, as it is forwarded.
        """
        publication = as_publication(obj, provided)
        if publication is not None:
            self.flush_publications()
            metadata = frame[: len(frame) - len(obj.payload) - 1]
            self.publish_one(Delivery(metadata, obj.payload, publication), publication)

    def publish_one(self, delivery: Delivery, publication: Publication) -> None:
        """Give subscribers one publication. It is the last value of its service from now on."""
        self._last_values.put(publication.service, publication.payload, publication)
        self._traffic.add(publication.service, 1, len(publication.payload))
        self._fanout.add_to_all(self._receivers.subscribed_to(publication.service), delivery)
        if self._shares:
            self._shares.give(publication.service, [delivery])

    def publish_many(self, publications: Sequence[Publication]) -> None:
        """Give subscribers publications that differ in nothing but their payloads."""
        service, payloads = publications[0].service, [each.payload for each in publications]
        self._traffic.add(service, len(payloads), self._last_values.put_batch(service, payloads, publications[-1]))
        self._fanout.add_made(self._receivers.subscribed_to(service), partial(_encoded, publications, payloads))
        if self._shares:
            self._shares.give(service, [Delivery(b"", each.payload, each) for each in publications])

    def flush_publications(self) -> None:
        """Give subscribers the collected publications, at the end of a batch."""
        if not self._payloads:
            return
        payloads, self._payloads = self._payloads, []
        service, content_type = self._topic
        self._traffic.add(service, len(payloads), self._last_values.put_batch(service, payloads, content_type))
        self._fanout.add_made(self._receivers.subscribed_to(service), partial(_batch, service, payloads))


def _batch(service: str, payloads: Sequence[bytes], group: Group) -> Sequence[bytes]:
    assert isinstance(group.encoding, BatchEncoding)
    return group.encoding.encode_batch(service, payloads)


def _encoded(publications: Sequence[Publication], payloads: Sequence[bytes], group: Group) -> Sequence[bytes]:
    """The frames of publications that differ in nothing but their payloads."""
    encoding = group.encoding
    if isinstance(encoding, BatchEncoding):
        return encoding.encode_batch(publications[0].service, payloads)
    if isinstance(encoding, RunEncoding):
        return encoding.encode_run(publications)
    frames = [encoding.encode(Delivery(b"", each.payload, each)) for each in publications]
    return [each for each in frames if each is not None]
