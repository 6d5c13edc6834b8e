"""Across formats: one test for each sentence on publications."""

import base64
import json

from bussrv import events as ev
from bussrv.wire import spp
from tests.formats.network import Member, Network, drain
from tests.formats.objects.support import provider
from tests.tables import each_row


def published(network: Network, member: Member, fields: dict[str, object], payload: bytes = b"x") -> list[str]:
    """On which services an object of a member is a publication."""
    watcher = network.watcher()
    for service in sorted(network.registry.state.services):
        watcher.subscribe(service)
    watcher.received()
    member.send(dict(fields), payload)
    return [event.service for event in watcher.received() if isinstance(event, spp.Info)]


def test_a_publication_is_a_payload_with_a_type_on_a_service() -> None:
    """All three reach a member of the object network: the bytes, their type, and whose they are."""
    network = Network()
    member = network.member()
    network.udp.publish("gauge", b"21.5")
    ((fields, payload),) = member.received()
    assert (payload, fields["type"], fields["sender"]) == (b"21.5", "text/plain; charset=UTF-8", "gauge")


@each_row(
    ("version", "payload", "content_type"),
    [
        (1, "ä".encode(), "text/plain; charset=UTF-8"),
        (2, "ä".encode(), "text/plain; charset=UTF-8"),
        (2, b"\xff\0", "application/octet-stream"),
    ],
)
def test_an_inbus_publish_is_text_where_it_can_be(version: int, payload: bytes, content_type: str) -> None:
    """Version 1 always, version 2 when the bytes are UTF-8; else they are just bytes."""
    network = Network()
    member = network.member()
    network.udp.publish("gauge", payload, version=version)
    ((fields, received),) = member.received()
    assert (fields["type"], received) == (content_type, payload)


def test_an_app_key_is_a_service_from_first_publish_to_lease_end() -> None:
    """Publishing renews the lease."""
    network = Network(inbus_lease=100)
    watcher = network.watcher()
    network.udp.publish("gauge", b"1")
    assert watcher.received() == [spp.Offer("gauge")]
    network.reactor.pump([10] * 6)
    network.udp.publish("gauge", b"2")
    network.reactor.pump([10] * 6)
    assert watcher.received() == []
    network.reactor.pump([10] * 6)
    assert watcher.received() == [spp.Removed("gauge")]
    (gone,) = network.events(ev.ServiceUnregistered)
    assert gone.reason == "lease-expired"


@each_row(
    ("services", "sender", "wanted"),
    [
        (["tv", "radio"], {"sender": "tv"}, ["tv"]),
        (["tv", "radio"], {}, []),
        (["tv", "radio"], {"sender": "lamp"}, []),
        (["tv"], {}, ["tv"]),
        (["tv"], {"sender": "ann"}, []),
        ([], {"sender": "tv"}, []),
    ],
)
def test_an_object_whose_sender_is_a_service_is_a_publication(
    services: list[str], sender: dict[str, object], wanted: list[str]
) -> None:
    """It says so, or there is only one service that it could be."""
    network = Network()
    provider(network, "tv", "radio", "lamp")
    assert published(network, provider(network, *services), {"type": "a/b", **sender}) == wanted


@each_row("event", ["services/reply", "services/x", "routing/x"])
def test_events_of_the_network_itself_never_are_publications(event: str) -> None:
    """Nor when they carry content of a provider."""
    network = Network()
    assert published(network, provider(network, "tv"), {"event": event, "type": "a/b", "sender": "tv"}) == []


@each_row(
    ("version", "payload", "text"),
    [
        (1, b"on", "on"),
        (1, b"\xff", base64.b64encode(b"\xff").decode()),
        (2, b"on", base64.b64encode(b"on").decode()),
        (2, b"\xff", base64.b64encode(b"\xff").decode()),
    ],
)
def test_to_inbus_it_is_text_or_base64(version: int, payload: bytes, text: str) -> None:
    """Base64 in version 2, and in version 1 when the bytes are no text."""
    network = Network()
    member = provider(network, "tv")
    network.udp.subscribe("tv", version=version)
    member.send({"type": "a/b"}, payload)
    ((datagram, _),) = network.udp.taken()
    assert json.loads(datagram)["payload"] == text


@each_row(("attributes", "app_type"), [({"app-type": 17}, 17), ({}, 1)])
def test_the_app_type_is_that_of_the_metadata_or_1(attributes: dict[str, object], app_type: int) -> None:
    """For subscribers of Inbus."""
    network = Network()
    member = provider(network, "tv")
    network.udp.subscribe("tv")
    member.send({"type": "a/b", **attributes}, b"on")
    ((datagram, _),) = network.udp.taken()
    assert json.loads(datagram)["application"] == ["tv", app_type]


@each_row("subscription", [{}, {"types": ["text/*"]}, {"types": ["image/*"]}, {"subscriptions": ["!*"]}])
def test_members_get_it_as_an_object_if_their_interest_allows(subscription: dict[str, object]) -> None:
    """With type, size, sender, id and route, and the app-type."""
    network = Network()
    member, office = network.member(**subscription), network.business()
    drain([member, office])
    network.udp.publish("gauge", b"21.5", app_type=7)
    for each, passes in ((member, subscription in ({}, {"types": ["text/*"]})), (office, True)):
        objects = [fields for fields in each.heads() if "type" in fields]
        assert bool(objects) == passes
        for fields in objects:
            assert list(fields) == ["type", "size", "sender", "id", "route", "app-type"]
            assert (fields["size"], fields["sender"], fields["app-type"]) == (4, "gauge", 7)
