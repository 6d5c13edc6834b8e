"""Deliberately broken plugins with requests, patterns and ends of subscriptions, each with one fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from bussrv.formats.mqtt.protocol import MqttProtocol
from bussrv.formats.objects.object_system import ObjectsProtocol
from bussrv.interfaces import IWireFormat
from bussrv.plugin import EVERYTHING, StreamListener, matches
from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import NO_PROPERTIES
from tests.testing.conformance import lines

Received = Callable[[MqttProtocol, Any], None]


class Fault(NamedTuple):
    """:ivar hooks: what the broken protocol has of its own. :ivar words: of the sentence."""

    name: str
    hooks: dict[str, Any]
    promise: str
    words: str
    format: str = "mqtt"


def taking(kind: type, change: Callable[[Any], Any]) -> dict[str, Received]:
    """Packets of a kind are changed before they are served."""

    def received(self: MqttProtocol, event: Any) -> None:
        MqttProtocol.received(self, change(event) if isinstance(event, kind) else event)

    return {"received": received}


def with_filter(change: Callable[[str], str]) -> dict[str, Received]:
    return taking(
        packets.Subscribe,
        lambda event: replace(
            event, filters=tuple(replace(each, filter=change(each.filter)) for each in event.filters)
        ),
    )


def is_reply(event: packets.Publish) -> bool:
    return event.topic.startswith("$reply/")


def showing_all(self: MqttProtocol, event: Any) -> None:
    """Whoever subscribes to a pattern is given the state of all that it covers, and no policy is asked."""
    MqttProtocol.received(self, event)
    if isinstance(event, packets.Subscribe):
        for name in self.bus.registry.state.services:
            if matches(event.filters[0].filter, name):
                self.say(packets.Publish(name, self.bus.last(name, EVERYTHING)))


def forgetting(self: MqttProtocol, event: Any) -> None:
    """The end of a subscription is answered, and that is all."""
    if isinstance(event, packets.Unsubscribe):
        self.say(packets.Unsuback(event.id, (0,)))
    else:
        MqttProtocol.received(self, event)


def ending_all(self: MqttProtocol, event: Any) -> None:
    if isinstance(event, packets.Unsubscribe):
        event = replace(event, filters=tuple(self.bus.registry.state.subscribed_by(self.session_id)))
    MqttProtocol.received(self, event)


def with_deaf_link(self: MqttProtocol, backlog: Any) -> Any:
    link = MqttProtocol.make_link(self, backlog)
    kind = type(link)
    link.__class__ = type("Deaf", (kind,), {"refilter": lambda *_, **__: None})
    return link


def telling_all_askers() -> dict[str, Any]:
    """A reply goes to everybody who has asked, or wants to."""
    askers: list[MqttProtocol] = []

    def received(self: MqttProtocol, event: Any) -> None:
        if isinstance(event, packets.Connect):
            askers.append(self)
        MqttProtocol.received(self, event)
        if isinstance(event, packets.Publish) and event.properties.response_topic is not None:
            for each in askers:
                if each is not self and not each.has_ended:
                    each.say(packets.Publish(event.properties.response_topic, b"for somebody"))

    return {"received": received}


FAULTS = (
    Fault(
        "requests are taken for publications",
        taking(packets.Publish, lambda event: replace(event, properties=NO_PROPERTIES)),
        "requests-are-answered",
        "reaches its provider as [] instead of once",
    ),
    Fault(
        "questions are changed",
        taking(packets.Publish, lambda event: replace(event, payload=event.payload.replace(b"\0", b" "))),
        "requests-are-answered",
        "a request over mqtt for a service over objects reaches its provider as [Asked(",
    ),
    Fault(
        "others are given replies",
        telling_all_askers(),
        "requests-are-answered",
        "a client that asked nothing is given [b'for somebody']",
    ),
    Fault(
        "replies end at a NUL",
        taking(
            packets.Publish,
            lambda event: replace(event, payload=event.payload.partition(b"\0")[0]) if is_reply(event) else event,
        ),
        "providers-are-asked",
        "and the asker is given [b'a']",
    ),
    Fault(
        "replies are dropped",
        taking(packets.Publish, lambda event: packets.Pingreq() if is_reply(event) else event),
        "providers-are-asked",
        "and the asker is given []",
    ),
    Fault(
        "askers are not told that there is no provider",
        {"personal": lambda self, frame: b"" if b'"no-such-service"' in frame else frame},
        "askers-are-told-that-there-is-no-provider",
        "a client asks for a service that nobody provides, and is told []",
        "objects",
    ),
    Fault(
        "who wants to answer only subscribes",
        taking(packets.Subscribe, lambda event: replace(event, properties=NO_PROPERTIES)),
        "one-provider-is-asked",
        "the two providers of their service are given [[0, 0], [0, 0]]",
    ),
    Fault(
        "sessions of providers stay",
        {"close_session": lambda self, reason: None},
        "askers-are-told-that-a-provider-is-gone",
        "the provider of an open request has left, and its asker is told []",
    ),
    Fault(
        "the end of a subscription is only answered",
        {"received": forgetting},
        "an-unsubscribed-client-is-given-nothing",
        "a client that has unsubscribed is still given publications",
    ),
    Fault(
        "the end of one subscription ends all",
        {"received": ending_all},
        "an-unsubscribed-client-is-given-nothing",
        "an unsubscription ends a subscription to another service",
    ),
    Fault(
        "an encoding of its own is never changed",
        {"make_link": with_deaf_link},
        "many-subscriptions-change-one-by-one",
        "of ['kit/65'] it is given 0 publications",
    ),
    Fault(
        "a pattern covers everything",
        with_filter(lambda wanted: wanted.replace("kit/#", "#")),
        "patterns-cover-what-appears-later",
        "a client that wants all below 'kit' is given ['kitchen'] of 'kitchen'",
    ),
    Fault(
        "a pattern covers one level",
        with_filter(lambda wanted: wanted.replace("#", "+")),
        "patterns-cover-what-appears-later",
        "is given [] of 'kit/2/3'",
    ),
    Fault(
        "the state of all that a pattern covers is shown past the policy",
        {"received": showing_all},
        "a-pattern-shows-only-what-may-be-watched",
        "a pattern gives a client the state of ['kit/secret'], which it may not watch",
    ),
)


class Format:
    """A format with a protocol that has a fault."""

    summary = default_endpoint = "tcp:1"

    def __init__(self, fault: Fault) -> None:
        self.name = fault.format
        base = MqttProtocol if fault.format == "mqtt" else ObjectsProtocol
        self._protocol = type("Broken", (base,), fault.hooks)

    def listen(self, bus: Any, endpoint: str, reactor: Any) -> StreamListener:
        listener: Any = lines.installed(self.name).listen(bus, endpoint, reactor)
        factory = listener._factory
        factory.make = lambda: factory.make_of(self._protocol)
        made: StreamListener = listener
        return made


def finding(fault: Fault) -> Callable[[str], IWireFormat]:
    """Finds that format, and those that are installed."""
    made: Any = Format(fault)
    return lambda name: made if name == fault.format else lines.installed(name)
