"""The bus as wire formats see it; whole histories are in ``groups/test_fanout``."""

from zope.interface.verify import verifyObject

from bussrv.bus.bus import Bus
from bussrv.bus.interfaces import IBus, ISessionLink
from bussrv.bus.sessions.membership import MembershipAnnouncer
from bussrv.registry.changes.registry import Registry
from bussrv.registry.interfaces import IRegistryObserver
from bussrv.settings import Settings
from bussrv.values import Publication, Traffic
from tests.bus.harness import NO_ECHO, SERVER, TEXT, RecordingLink, member
from tests.bus.reference import frame, inbus_publish


def test_interfaces(harness):
    assert verifyObject(IBus, harness.bus)
    assert verifyObject(IRegistryObserver, MembershipAnnouncer(harness.bus))
    assert verifyObject(ISessionLink, RecordingLink({}))


def test_an_answer_comes_behind_what_was_sent_before(harness):
    sender, asking = member(harness, NO_ECHO), member(harness)
    sender.send({**TEXT, "id": "o"})
    harness.bus.tell(asking.id, {"event": "pong"})
    assert asking.got == [
        frame({**TEXT, "id": "o", "route": [sender.routing_id, SERVER]}),
        frame({"event": "pong"}),
    ]


def test_who_is_gone_is_told_nothing(harness):
    asking = harness.open()
    harness.bus.tell(asking.id, {"event": "list"})
    assert asking.got == [frame({"event": "list"})]
    asking.close()
    harness.bus.tell(asking.id, {"event": "list"})
    assert len(asking.got) == 1


def test_who_is_no_member_is_routed_nothing_from(harness):
    stranger, listener = harness.open(), member(harness)
    assert stranger.send(TEXT) == 0
    harness.bus.flush()
    assert listener.got == []
    assert harness.bus.counters["not-subscribed"] == 1


def test_sessions_of_an_earlier_boot_get_what_they_subscribed_to(harness):
    subscriber = harness.open("inbus")
    subscriber.subscribe("tv", 2)
    subscriber.subscribe("lamp", 1)
    again = Registry(
        harness.journal, harness.clock, harness.new_id, server_id=SERVER, boot="c", state=harness.registry.state
    )
    bus = Bus(again, Settings(), SERVER, harness.new_id, harness.clock, harness.reactor)
    publisher = bus.open("inbus", "10.0.0.2", RecordingLink(harness.encodings["inbus"]))
    bus.publish(publisher.id, Publication("tv", "text/plain", b"too early"))
    link = RecordingLink(harness.encodings["inbus"])
    bus.resume(subscriber.id, link)
    for service in ("tv", "lamp", "radio"):
        bus.publish(publisher.id, Publication(service, "text/plain", b"x", 7))
    bus.flush()
    assert link.got == [inbus_publish("tv", 7, b"x", 2), inbus_publish("lamp", 7, b"x", 1)]
    bus.close(subscriber.id, "unsubscribed", Traffic())
    bus.publish(publisher.id, Publication("tv", "text/plain", b"y"))
    bus.flush()
    assert len(link.got) == 2


def test_resuming_a_member_does_not_subscribe_it_to_nothing(harness):
    listener = member(harness)
    harness.bus.resume(listener.id, listener.link)
    assert listener.send(TEXT) == 0
