"""Inbus: what is wrong is dropped, counted and journaled, and never answered."""

from ipaddress import ip_network
from pathlib import Path

from twisted.internet.error import InvalidAddressError, MessageLengthError

from bussrv import events as ev
from bussrv.policy.permissions.file import parse_policy
from bussrv.wire import inbus
from tests.formats.network import Network
from tests.tables import each_row


@each_row(
    ("datagram", "reason"),
    [
        (b"\xff", "bad-utf8"),
        (b"{", "bad-json"),
        (b"[]", "not-an-object"),
        (b'{"version":2,"opcode":3,"application":["a",1],"address":["",0],"payload":"*"}', "bad-base64"),
        (b'{"version":1,"opcode":1,"application":["a",0],"address":["10.0.0.2",0],"payload":""}', "bad-element"),
        (b'{"version":1,"opcode":1,"application":["a",0],"address":["here",1],"payload":""}', "bad-element"),
        (b'{"version":1,"opcode":1,"application":["",0],"address":["10.0.0.2",1],"payload":""}', "bad-service-name"),
        (
            b'{"version":1,"opcode":2,"application":["a",0],"address":["10.0.0.2",1],"payload":""}',
            "no-such-subscription",
        ),
        (b'{"version":1,"opcode":3,"application":["bus/x",1],"address":["",0],"payload":""}', "reserved-name"),
    ],
)
def test_what_is_wrong_is_dropped_and_counted_and_never_answered(datagram: bytes, reason: str) -> None:
    network = Network()
    network.udp.receive(datagram)
    assert network.udp.taken() == []
    assert network.bus.counters[reason] == 1
    assert network.registry.state.sessions == {}
    assert network.events(ev.SessionOpened) == []


@each_row(
    ("datagram", "kind"),
    [
        (inbus.publish("bus/" + "x" * 1000, 1, b""), ev.ServiceRefused),
        (inbus.publish("", 1, b""), ev.ServiceRefused),
        (inbus.subscribe("x" * 1000, "10.0.0.2", 5000), ev.SubscriptionRefused),
        (inbus.subscribe("x" * 1000, "10.0.0.9", 5000), ev.SubscriptionRefused),
    ],
)
def test_refusals_are_journaled_at_a_limited_rate_and_cut(datagram: bytes, kind: type[ev.Event]) -> None:
    network = Network()
    network.udp.receive(datagram)
    (refused,) = network.events(kind)
    assert (refused.protocol, refused.peer) == ("inbus", "10.0.0.2")
    assert len(refused.service or "") <= 255
    for _ in range(1000):
        network.udp.receive(datagram)
    assert len(network.journal.records) <= 100


@each_row(
    "failure",
    [OSError(11, "try again"), MessageLengthError("too long"), InvalidAddressError("::1", "an IPv4 port"), None],
)
def test_what_the_system_does_not_take_is_counted(failure: Exception | None) -> None:
    """``None``: the port is closed already."""
    network = Network()
    member = network.member()
    network.udp.subscribe("a")
    network.udp.failing = failure
    if failure is None:
        network.udp.server.stopProtocol()
    network.udp.publish("a", b"x")
    assert network.bus.counters["inbus-send-failed"] == 1
    assert member.names() == ["text/plain; charset=UTF-8"]


def test_a_change_that_cannot_be_written_is_dropped_and_counted() -> None:
    network = Network()
    network.journal.fail("no space left")
    network.udp.subscribe("a")
    network.udp.publish("a", b"x")
    assert network.bus.counters["journal-unavailable"] == 2
    assert network.registry.state.sessions == {}
    network.journal.fail(None)
    network.udp.subscribe("a")
    network.udp.publish("a", b"y")
    assert network.udp.payloads() == [b"y"]


def test_denied_inbus_datagrams_are_counted_and_leave_no_session() -> None:
    network = Network(inbus_users=((ip_network("10.0.0.0/8"), "ann"),))
    policy = '[[rule]]\nusers = ["ann"]\nformats = ["inbus"]\npublish = ["tv"]\nwatch = ["tv"]\n'
    network.bus.access.policy = parse_policy(policy, Path("policy.toml"), ["inbus"])
    for _ in range(500):
        network.udp.publish("alarm", b"forged")
        network.udp.subscribe("alarm")
    assert network.bus.counters["not-allowed"] == 1000
    assert not network.registry.state.sessions
    records = [record.event for record in network.journal.records]
    assert {type(event) for event in records} == {ev.AccessDenied}
    assert len(records) <= 100
    assert {(each.action, each.target, each.actor) for each in network.events(ev.AccessDenied)} == {
        ("publish", "alarm", "ann"),
        ("watch", "alarm", "ann"),
    }
