"""Attacks that the threat model calls open: nothing prevents them. If a test fails, its row there is out of date."""

from __future__ import annotations

import socket
from pathlib import Path

from bussrv import events as ev
from bussrv.client.inbus import InbusSubscriber
from bussrv.policy.permissions.file import parse_policy
from bussrv.wire import inbus
from tests.formats.network import Network, drain

PROVIDED = '[[rule]]\nnetworks = ["10.0.0.1"]\nprovide = ["!tv", "*"]\nrequest = "*"\nsend = "*"\naddress = "*"\n'


def test_a_second_provider_gets_a_share_of_the_requests() -> None:
    network = Network()
    provider, intruder, asker = (network.member(receive_mode="no_echo") for _ in range(3))
    for each in (provider, intruder):
        each.send({"event": "services/register", "name": "tv"})
    drain([provider, intruder, asker])
    for number in range(4):
        asker.send({"event": "services/request", "id": number, "name": "tv"})
    assert [each.names().count("services/request") for each in (provider, intruder)] == [2, 2]


def test_with_a_policy_it_does_not() -> None:
    network = Network()
    network.bus.access.policy = parse_policy(PROVIDED, Path("policy.toml"), ("objects",))
    intruder = network.member()
    intruder.send({"event": "services/register", "name": "tv"})
    assert [each.get("reason") for each in intruder.heads()] == ["not-allowed"]


def test_the_first_to_come_takes_a_routing_id_others_address() -> None:
    network = Network()
    policy = '[[rule]]\nnetworks = ["10.0.0.1"]\nsend = "*"\naddress = "ann"\n'
    network.bus.access.policy = parse_policy(policy, Path("policy.toml"), ("objects",))
    intruder, sender = network.member(**{"routing-ids": ["ann"]}), network.member()
    drain([intruder, sender])
    sender.send({"event": "letter", "to": "ann"})
    assert intruder.names() == ["letter"]


def test_whoever_may_send_names_a_service_as_the_sender() -> None:
    network = Network()
    policy = '[[rule]]\nnetworks = ["10.0.0.1"]\nsend = "*"\nobserve = "*"\nwatch = "*"\n'
    network.bus.access.policy = parse_policy(policy, Path("policy.toml"), ("objects", "spp"))
    intruder, member = network.member(), network.member()
    drain([intruder, member])
    intruder.send({"type": "text/plain", "sender": "alarm", "id": "1"})
    (told,) = member.heads()
    assert (told["sender"], told["route"][0]) == ("alarm", intruder.routing_id)


def test_asking_for_a_hidden_routing_id_tells_that_it_is_taken() -> None:
    network = Network()
    network.bus.access.policy = parse_policy('[[rule]]\nsend = "*"\n', Path("policy.toml"), ("objects",))
    network.member(**{"routing-id": "boss"})
    assert network.member(**{"routing-id": "boss"}).routing_id != "boss"
    assert network.member(**{"routing-id": "nobody"}).routing_id == "nobody"


def test_whoever_forges_the_source_of_a_device_speaks_for_it() -> None:
    network = Network()
    network.udp.subscribe("door", host="10.0.0.2")
    network.udp.server.datagramReceived(inbus.unsubscribe("door", "10.0.0.2", 5000), ("10.0.0.2", 666))
    assert len(network.events(ev.SubscriptionRemoved)) == 1


def test_whoever_reaches_a_subscribers_port_publishes_to_it() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
    ):
        server.bind(("127.0.0.1", 0))
        with InbusSubscriber("door", server.getsockname()) as device:
            stranger.sendto(inbus.publish("door", 1, b"open", 2), device.address)
            assert device.receive(timeout=30.0).payload == b"open"
