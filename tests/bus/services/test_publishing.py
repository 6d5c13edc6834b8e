"""Publications go to the subscribers of their services, together and in order."""

from bussrv.policy.permissions.permissions import EVERYTHING
from bussrv.values import Publication
from tests.bus.harness import TEXT, member
from tests.bus.reference import spp_info


def test_a_subscriber_of_services_gets_publications_in_order(harness):
    sender, both, one = member(harness), harness.open("spp"), harness.open("spp")
    for service in ("tv", "lamp"):
        sender.register(service)
        both.subscribe(service)
    one.subscribe("tv")
    for service in ("tv", "lamp", "lamp", "tv"):
        sender.send({**TEXT, "sender": service}, service.encode())
    harness.bus.flush()
    assert both.got == [spp_info(each, each.encode()) for each in ("tv", "lamp", "lamp", "tv")]
    assert one.got == [spp_info("tv", b"tv")] * 2


def test_services_without_common_subscribers_wait_for_nobody(harness):
    sender, first, second = member(harness), harness.open("spp"), harness.open("spp")
    for service, subscriber in (("tv", first), ("lamp", second)):
        sender.register(service)
        subscriber.subscribe(service)
    for service in ("tv", "lamp", "tv", "lamp"):
        sender.send({**TEXT, "sender": service}, b"x")
    assert (first.got, second.got) == ([], [])
    harness.bus.flush()
    assert (len(first.link.batches), len(second.link.batches)) == (1, 1)


def test_a_closed_session_publishes_nothing(harness):
    publisher, subscriber = harness.open("inbus"), harness.open("spp")
    publisher.register("tv")
    subscriber.subscribe("tv")
    publisher.close()
    publisher.publish("tv", b"x")
    harness.bus.flush()
    assert subscriber.got == []
    assert harness.bus.last("tv", EVERYTHING) == b""


def test_a_payload_without_a_type_is_a_publication_of_bytes(harness):
    seen = []
    harness.bus._router._publisher.publish_one = lambda delivery, publication: seen.append(publication)
    sender = member(harness)
    sender.register("tv")
    sender.send({}, b"x")
    assert seen == [Publication("tv", "application/octet-stream", b"x", 1)]
