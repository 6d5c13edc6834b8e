"""Services of the server itself: found, offered, requested and subscribed to like all others."""

import json

import pytest
from twisted.logger import capturedLogs, formatEvent
from zope.interface.verify import verifyObject

from bussrv import events as ev
from bussrv.interfaces import IHostedService, IServiceHost, IServiceObject
from bussrv.server.configuration.plugins import installed
from bussrv.services.hosting import Host, HostedServices
from bussrv.wire import spp
from tests.bus.links.fabric import Fabric
from tests.formats.network import Network
from tests.services.scene import DOOR, Hosting
from tests.tables import each_row

NAMES = ["bus/clock", "bus/registry", "bus/statistics"]


def test_those_of_bussrv_are_plugins() -> None:
    assert [plugin.name for plugin in installed().services] == NAMES
    network = Network()
    for plugin in installed().services:
        verifyObject(IHostedService, plugin)
        host = Host(plugin.name, network.bus, network.journal, network.reactor)
        verifyObject(IServiceHost, host)
        verifyObject(IServiceObject, plugin.make(host))


def test_they_are_offered_to_spp_and_listed() -> None:
    network = Hosting()
    assert network.watcher().received() == [spp.Offer(name) for name in NAMES]
    member, office = network.member(receive_mode="no_echo"), network.business()
    office.send({"event": "services/list"})
    assert json.loads(office.received()[-1][1]) == NAMES
    member.received()
    member.send({"event": "services/discovery", "name": "bus/clock"})
    (found,) = member.heads()
    assert (found["name"], found["protocol"]) == ("bus/clock", "bus")


def test_members_ask_for_the_present_state() -> None:
    network = Hosting()
    member, other = network.member(receive_mode="no_echo"), network.member(receive_mode="no_echo")
    member.received()
    member.send({"event": "services/request", "name": "bus/statistics", "id": "1"})
    ((fields, payload),) = member.received()
    assert (fields["event"], fields["in-reply-to"], fields["name"]) == ("services/reply", "1", "bus/statistics")
    assert (fields["type"], fields["to"]) == ("application/json", member.routing_id)
    assert json.loads(payload)["sessions"] == {"bus": 1, "objects": 2}
    assert other.received() == []


@each_row("name", ["bus/clock", "Bus/clock", "door", "DOOR", "\uff44oor", "d\u200door"])
def test_nobody_else_may_provide_them(name: str) -> None:
    network = Hosting(*installed().services, DOOR)
    watcher = network.watching("door")
    assert watcher.messages() == [b"closed"]
    for client in (network.member(), network.business()):
        client.received()
        client.send({"event": "services/register", "name": name})
        assert client.only_reply()["reason"] == "reserved-name"
        client.send({"type": "text/plain", "sender": name}, b"forged")
    network.udp.publish(name, b"forged")
    assert watcher.messages() == []
    assert {event.reason for event in network.events(ev.ServiceRefused)} == {"reserved-name"}
    assert network.bus.counters["reserved-name"] == 3
    (own,) = network.registry.state.services["door"]
    assert network.registry.state.sessions[own].protocol == "bus"


def hosting(network: Network) -> HostedServices:
    hosted = HostedServices([DOOR], network.bus, network.journal, network.reactor)
    hosted.claim()
    hosted.start()
    return hosted


def test_no_client_of_a_linked_server_may_provide_them_either() -> None:
    """Every server has its own, under the same name: it does not tell the others of it, and they take no other."""
    fabric = Fabric("a", "b", "c")
    for name in "bc":
        hosting(fabric[name])
    fabric.links("ab", "bc")
    forger, watcher = fabric["a"].member(), fabric["b"].watcher()
    watcher.subscribe("door")
    forger.send({"event": "services/register", "name": "door"})
    forger.send({"event": "services/register", "name": "tv"})
    forger.send({"type": "text/plain", "sender": "door", "id": "1"}, b"forged")
    fabric.settle()
    assert watcher.messages() == [b"closed"]
    providers = {name: list(fabric[name].registry.state.services["door"]) for name in "abc"}
    homes = {name: fabric[name].registry.state.sessions[one].protocol for name, (one,) in providers.items()}
    assert homes == {"a": "objects", "b": "bus", "c": "bus"}
    assert all("tv" in fabric[name].registry.state.services for name in "abc")
    counted = {name: fabric[name].bus.counters["reserved-name"] for name in "abc"}
    assert counted == {"a": 0, "b": 1, "c": 0}


def test_at_start_a_client_loses_a_hosted_name_and_it_is_logged() -> None:
    before = Network()
    member = before.member(name="gate")
    for name in ("Door", "tv"):
        member.send({"event": "services/register", "name": name})
    network = Network(before.registry.state)
    with capturedLogs() as logged:
        hosting(network)
    (said,) = (formatEvent(each) for each in logged)
    assert said.startswith("the journal gives the service 'Door' to 'gate' at 10.0.0.1")
    assert list(network.registry.state.services) == ["tv", "door"]
    (lost,) = network.events(ev.ServiceUnregistered)
    assert (lost.service, lost.reason) == ("Door", "reserved-name")


def test_they_go_with_the_server_and_the_journal_says_so() -> None:
    network = Hosting()
    watcher = network.watching("bus/clock")
    network.hosted.stop()
    watcher.received()
    network.tick(5)
    assert watcher.messages() == []
    unregistered = [event.service for event in network.events(ev.ServiceUnregistered)]
    assert unregistered == NAMES
    assert [event.reason for event in network.events(ev.SessionClosed)] == ["server-stopped"]


@pytest.mark.parametrize("stops", [True, False], ids=["the server stops", "the disk fails"])
def test_services_that_cannot_be_registered(stops: bool) -> None:
    """Without a traceback; nobody needs to hear of it when the server stops right after its start."""
    network = Network()
    network.journal.hold()
    hosted = HostedServices(installed().services, network.bus, network.journal, network.reactor)
    with capturedLogs() as logged:
        hosted.start()
        if stops:
            hosted.stop()
            network.journal.release()
        else:
            network.journal.fail("no space left")
    said = [formatEvent(each) for each in logged]
    assert said == ([] if stops else [f"the service {name} is not offered: no space left" for name in NAMES])
    assert not any("log_failure" in each for each in logged)
