"""Who of the subscribers of the server's own services is given what, and when."""

from typing import Any

from twisted.logger import capturedLogs

from bussrv.plugin import HostedService
from tests.services.scene import DOOR, Hosting
from tests.tables import each_row


def test_updates_go_to_those_who_subscribed_and_to_nobody_else() -> None:
    network = Hosting()
    member, watcher, other = network.member(), network.watching("bus/clock"), network.watcher()
    network.udp.subscribe("bus/clock")
    for each in (member, watcher, other):
        each.received()
    network.tick(1)
    network.tick()
    assert len(network.udp.taken()) == 1
    assert len(watcher.messages()) == 1
    assert (member.received(), other.received()) == ([], [])


def test_members_that_name_a_service_are_given_updates() -> None:
    """They get each once, though they want all content, too, and none if they receive nothing."""
    network = Hosting()
    joined = {mode: network.member(receive_mode=mode, services=["bus/clock"]) for mode in ("all", "no_echo", "none")}
    business = network.business(subscribe="none", services=["bus/clock", "bus/statistics"])
    for each in (*joined.values(), business):
        each.received()
    network.tick(1)
    network.tick()
    ((fields, payload),) = joined["all"].received()
    about = {"type": "text/plain", "sender": "bus/clock", "route": ["hall"], "size": len(payload)}
    assert {key: value for key, value in fields.items() if key != "id"} == about
    assert joined["no_echo"].received() == [(fields, payload)]
    assert joined["none"].received() == []
    assert (fields, payload) in business.received()


BROKEN = HostedService("broken", module="tests.services.broken", content_type="text/plain", summary="a broken one")


@each_row("state", [RuntimeError("no sensor"), "text", None])
def test_a_service_that_fails_to_say_its_state_ends_nobody(state: Any) -> None:
    """A client that asks is told, subscribers are given the next update, and the log says what happened."""
    network = Hosting(BROKEN)
    service: Any = network.hosted._services["broken"]
    service.state = state
    member, business = network.member(), network.business()
    with capturedLogs() as logged:
        watcher = network.watching("broken")
        watcher.subscribe("broken")
        for client in (member, business):
            client.received()
            client.send({"event": "services/request", "name": "broken", "id": 1})
            told = client.only_reply()
            assert (told["event"], told["reason"], told["in-reply-to"]) == ("error", "internal-error", 1)
    assert watcher.messages() == []
    service.host.publish(b"mended")
    network.tick()
    assert watcher.messages() == [b"mended"]
    service.state = b"well"
    member.send({"event": "services/request", "name": "broken"})
    assert [payload for _, payload in member.received()] == [b"well"]
    watcher.subscribe("broken")
    assert watcher.messages() == [b"well"]
    assert all(each.connection.is_open for each in (member, business, watcher))
    assert network.bus.counters["internal-error"] == 4
    assert {each["event"] for each in logged} == {"service.failed"}


def test_a_service_is_told_of_its_first_and_last_subscriber() -> None:
    network = Hosting(DOOR)
    first, second = network.watching("door"), network.watching("door")
    assert first.messages() == second.messages() == [b"closed"]
    door = network.hosted._services["door"]
    assert door.calls == ["first_subscriber_came"]
    first.unsubscribe("door")
    assert door.calls == ["first_subscriber_came"]
    second.connection.close()
    assert door.calls == ["first_subscriber_came", "last_subscriber_left"]
    member = network.member(services=["door"])
    assert door.calls == ["first_subscriber_came", "last_subscriber_left", "first_subscriber_came"]
    member.send({"event": "routing/subscribe"})
    assert door.calls[3:] == ["last_subscriber_left"]
    network.watching("door")
    assert door.calls[4:] == ["first_subscriber_came"]
