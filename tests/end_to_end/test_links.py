"""Linked servers as users run them: processes and sockets. Many more topologies, in memory: tests/links."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from bussrv.client import inbus
from bussrv.client.inbus import InbusSubscriber
from bussrv.client.objects import Object
from bussrv.client.spp import SppClient
from bussrv.wire import spp
from tests.end_to_end.linked import LinkedServers, Member, assert_journal_is_closed, tracebacks
from tests.size import further

TOPOLOGIES = {
    "diamond": ("ab", "ac", "bd", "cd"),
    "triangle": ("ab", "bc", "ca"),
    "ring": ("ab", "bc", "cd", "de", "ea"),
}
COUNT = 200


@pytest.fixture(scope="module", params=further(TOPOLOGIES))
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinkedServers]:
    """Linked servers, shared by the tests of this file; at the end they are stopped, and have to have been well."""
    with LinkedServers(tmp_path_factory.mktemp(request.param), TOPOLOGIES[request.param]) as servers:
        servers.plug()
        servers.wait_until_all_is_known()
        yield servers
        servers.part()
        servers.stop()
        for name in servers.names:
            assert_journal_is_closed(servers.journal(name))
            assert tracebacks(servers[name]) == []


def numbered(count: int = COUNT) -> list[bytes]:
    return [b"%d" % number for number in range(1, count + 1)]


def send_numbered(member: Member, start: int = 1, count: int = COUNT) -> None:
    """Contents that are numbered; every second one without an id."""
    for number in range(start, start + count):
        fields = {"type": "text/plain"} if number % 2 else {"type": "text/plain", "id": f"{member.id}.{number}"}
        member.client.send(fields, b"%d" % number)


def farthest(network: LinkedServers) -> str:
    """A server that is as far away from a as any."""
    return {3: "b", 4: "d", 5: "c"}[len(network.names)]


def answer(provider: Member, name: str, payload: bytes, *, to: bool) -> Object:
    """Answer the next request for a service, with ``to`` or without it."""
    request = provider.hear(lambda each: each.get("event") == "services/request" and each.get("name") == name)
    provider.heard.remove(request)
    fields = {"event": "services/reply", "in-reply-to": request.metadata["id"], "type": "text/plain"}
    provider.client.send({**fields, "to": request.metadata["route"][0]} if to else fields, payload)
    return request


def test_publications_reach_members_of_all_servers_once_in_order(network: LinkedServers) -> None:
    publisher = network.join("a")
    publisher.client.register("numbers")
    members = {name: network.join(name) for name in network.names}
    send_numbered(publisher)
    network.settle((publisher, *members.values()))
    for name, member in members.items():
        assert member.payloads(publisher.id) == numbered()
        routes = [each.metadata["route"] for each in member.heard if each.payload]
        assert {(route[0], route[1], route[-1]) for route in routes} == {(publisher.id, "a", name)}
        assert all(len(set(route)) == len(route) for route in routes)
    publisher.client.unregister()


def test_members_of_all_servers_are_heard_once_in_order(network: LinkedServers) -> None:
    members = [network.join(name) for name in network.names]
    for start in range(1, COUNT, 20):
        for member in members:
            send_numbered(member, start, 20)
    network.settle(members)
    for listener in members:
        for speaker in members:
            assert listener.payloads(speaker.id) == numbered()


def test_an_object_reaches_its_addressees_wherever_they_are(network: LinkedServers) -> None:
    members = [network.join(name, routing_ids=["everybody", f"room-{name}"]) for name in network.names]
    rooms = [f"room-{name}" for name in network.names]
    for sender in members:
        for recipient in members:
            sender.client.send({"event": "hello", "to": recipient.id})
        sender.client.send({"event": "good day", "to": [*rooms, "everybody"]})
        sender.client.send({"event": "good night", "to": "everybody"})
    network.settle(members)
    said = ("hello", "good day", "good night")
    for recipient in members:
        heard = Counter((each.metadata.get("event"), each.metadata["route"][0]) for each in recipient.heard)
        for sender in members:
            assert [heard[event, sender.id] for event in said] == [1, 1, 1]
    for watcher in network.watchers.values():
        assert not any(each.metadata.get("event") in said for each in watcher.heard)


@pytest.mark.parametrize("to", [True, False], ids=["with-to", "without-to"])
@pytest.mark.parametrize("vocabulary", ["objects", "business"])
def test_a_request_reaches_another_server_and_its_reply_returns(
    network: LinkedServers, vocabulary: str, to: bool
) -> None:
    far, service = farthest(network), f"clock-{vocabulary}-{to}"
    provider = network.join(far) if vocabulary == "objects" else network.join_business(far)
    provider.client._register_service(service)
    network.wait_for_service(service)
    for name in network.names:
        requester = network.join(name)
        for number in range(3):
            requester.client.send({"event": "services/request", "name": service, "id": f"{service}-{name}-{number}"})
        for number in range(3):
            request = answer(provider, service, b"%d" % number, to=to)
            assert request.metadata["route"][:2] == [requester.id, name]
        for number in range(3):
            reply = requester.hear(lambda each, wanted=f"{service}-{name}-{number}": each.get("in-reply-to") == wanted)
            assert reply.payload == b"%d" % number
            assert reply.metadata["route"][:2] == [provider.id, far]
    network.flush()
    assert not any(each.metadata.get("event") == "services/request" for each in provider.heard)
    provider.client._unregister_service(service)


def test_discovery_finds_another_servers_services_of_all_formats(network: LinkedServers) -> None:
    far = farthest(network)
    provider, office = network.join(far), network.join_business(far)
    provider.client.register("door")
    office.client._register_service("ledger")
    inbus.publish("gauge", b"21", server=network[far].addresses["inbus"])
    asker = network.join("a").client
    for service, protocol, provider_id in (
        ("door", "objects", provider.id),
        ("ledger", "business", office.id),
        ("gauge", "inbus", None),
    ):
        network.wait_for_service(service)
        (found,) = asker.discover(service)
        assert (found["name"], found["protocol"]) == (service, protocol)
        assert provider_id in (None, found["routing-id"])
    assert {"door", "ledger", "gauge"} <= {found["name"] for found in asker.discover()}
    provider.client.unregister("door")
    office.client._unregister_service("ledger")
    with SppClient(port=network["a"].port("spp")) as watcher:
        # Whatever is offered to begin with is taken back.
        watcher.wait_for(lambda event: event == spp.Offer("gauge"))
        network.flush()
    assert asker.discover("door") == []
    assert asker.discover("ledger") == []


def test_what_a_device_publishes_reaches_all_servers_and_formats(network: LinkedServers) -> None:
    far = farthest(network)
    key = f"meter-{far}"
    inbus.publish(key, b"0", server=network[far].addresses["inbus"])
    network.wait_for_service(key)
    network.flush()
    with ExitStack() as stack:
        devices = [
            stack.enter_context(InbusSubscriber(key, network[name].addresses["inbus"])) for name in network.names
        ]
        screens = [stack.enter_context(SppClient(port=network[name].port("spp"))) for name in network.names]
        for screen in screens:
            screen.wait_for(lambda event: event == spp.Offer(key))
            screen.subscribe(key)
            screen.wait_for(lambda event: isinstance(event, spp.Info))
        for number in range(1, 21):
            inbus.publish(key, b"\xff%d" % number, app_type=7, server=network[far].addresses["inbus"])
        for number in range(1, 21):
            for device in devices:
                datagram = device.receive(10)
                assert (datagram.payload, datagram.app_type) == (b"\xff%d" % number, 7)
            for screen in screens:
                info = screen.wait_for(lambda event: isinstance(event, spp.Info))
                assert info == spp.Info(key, b"\xff%d" % number)


def test_what_a_member_publishes_reaches_subscribers_everywhere(network: LinkedServers) -> None:
    publisher = network.join(farthest(network))
    publisher.client.register("tv")
    network.wait_for_service("tv")
    with ExitStack() as stack:
        devices = [
            stack.enter_context(InbusSubscriber("tv", network[name].addresses["inbus"])) for name in network.names
        ]
        screens = [stack.enter_context(SppClient(port=network[name].port("spp"))) for name in network.names]
        for screen in screens:
            screen.subscribe("tv")
            screen.wait_for(lambda event: isinstance(event, spp.Info))
        publisher.client.send({"type": "application/x", "sender": "tv"}, b"\0on\xff")
        assert [device.receive(10).payload for device in devices] == [b"\0on\xff"] * len(devices)
        infos = [screen.wait_for(lambda event: isinstance(event, spp.Info)) for screen in screens]
        assert infos == [spp.Info("tv", b"\0on\xff")] * len(screens)
    publisher.client.unregister()


def test_every_server_answers_a_member_of_any(network: LinkedServers) -> None:
    asker = network.join("a")
    for name in network.names:
        asker.client.send({"event": "ping", "id": f"ping-{name}", "to": name})
        asker.client.send({"event": "routing/neighbors", "id": f"neighbors-{name}", "to": name})
        pong = asker.hear(lambda each, name=name: each.get("in-reply-to") == f"ping-{name}")
        assert (pong.metadata["event"], pong.metadata["routing-id"]) == ("pong", name)
        reply = asker.hear(lambda each, name=name: each.get("in-reply-to") == f"neighbors-{name}")
        linked = sorted(pair.replace(name, "") for pair in network.cables if name in pair)
        assert (reply.metadata["event"], reply.metadata["neighbors"]) == ("routing/neighbors/reply", linked)
        assert reply.metadata["to"] == asker.id


def test_a_reply_finds_its_requester_after_anothers_same_id(network: LinkedServers) -> None:
    far, service = farthest(network), f"which-{len(network.names)}"
    providers = {each: network.join(far) for each in (f"{service}-with-to", f"{service}-without")}
    for name, provider in providers.items():
        provider.client.register(name)
        network.wait_for_service(name)
    for name, provider in providers.items():
        requester = network.join("a")
        requester.client.send({"event": "services/request", "name": name, "id": "1"})
        answer(provider, name, name.encode(), to=name.endswith("with-to"))
        assert requester.hear(lambda each: each.get("in-reply-to") == "1").payload == name.encode()


def test_members_that_leave_are_announced_once_on_every_server(network: LinkedServers) -> None:
    members = [network.join("a") for _ in range(30)]
    for member in members:
        member.client.close()
        for watcher in network.watchers.values():
            watcher.hear_of("routing/disconnect", member.id)
    network.flush()
    for watcher in network.watchers.values():
        for event in ("routing/subscribe/notify", "routing/disconnect"):
            announced = watcher.announced(event)
            assert {announced[member.id] for member in members} == {1}
