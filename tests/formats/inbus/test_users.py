"""Inbus clients that are users by the networks that they send from."""

from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.errors import ConfigError
from bussrv.policy.logins.identity import UsersOfNetworks
from bussrv.policy.permissions.permissions import EVERYTHING, NOTHING, Permissions
from bussrv.wire import inbus
from tests.formats.network import Network
from tests.server.configs import configured
from tests.tables import each_row

CAMERAS: UsersOfNetworks = ((ip_network("10.0.0.0/30"), "cam"), (ip_network("10.0.0.0/24"), "desk"))


def server(users: UsersOfNetworks = CAMERAS, *, asks: bool = True, **more: Any) -> Network:
    network = Network(inbus_users=users, **more)
    network.bus.access.asks = asks
    return network


def give(network: Network, users: UsersOfNetworks) -> None:
    network.bus.identity.use([], networks={"inbus": users})
    network.bus.identity.tell_changed()
    network.reactor.advance(0)


def sessions(network: Network) -> dict[str, str | None]:
    """The actor of each session of Inbus, by its address."""
    return {each.peer: each.actor for each in network.registry.state.sessions.values() if each.protocol == "inbus"}


def test_a_network_is_a_login() -> None:
    network = server()
    network.udp.publish("tv", b"1", source="10.0.0.2")
    network.udp.publish("tv", b"2", source="10.0.0.2")
    network.udp.subscribe("tv", host="10.0.0.9")
    assert sessions(network) == {"10.0.0.2": "cam", "10.0.0.9:5000": "desk"}
    succeeded = network.events(ev.AuthSucceeded)
    assert [(each.actor, each.method, each.protocol) for each in succeeded] == [
        ("cam", "network", "inbus"),
        ("desk", "network", "inbus"),
    ]
    (registered,) = network.events(ev.ServiceRegistered)
    assert registered.actor == "cam"


def test_others_are_dropped_and_counted_and_leave_no_session() -> None:
    network = server()
    for _ in range(100):
        network.udp.publish("tv", b"1", source="10.9.0.1")
        network.udp.subscribe("tv", host="10.9.0.1")
    assert sessions(network) == {}
    assert network.bus.counters["not-authenticated"] == 200
    assert network.events() == []
    assert network.journal.records == []


def test_who_is_not_asked_may_come_from_anywhere() -> None:
    network = server(asks=False)
    network.udp.publish("tv", b"1", source="10.9.0.1")
    network.udp.publish("tv", b"1", source="10.0.0.1")
    assert sessions(network) == {"10.9.0.1": None, "10.0.0.1": "cam"}


def test_the_source_counts_and_another_user_changes_nothing() -> None:
    network = server(inbus_allow=(ip_network("10.0.0.0/8"),))
    network.udp.receive(subscription("10.0.0.9"), "10.0.0.1")
    assert sessions(network) == {"10.0.0.9:5000": "cam"}
    for datagram in (subscription("10.0.0.9"), subscription("10.0.0.9", "radio"), subscription("10.0.0.9", off=True)):
        network.udp.receive(datagram, "10.0.0.9")
        network.udp.receive(datagram, "10.9.0.1")
    assert network.bus.counters["not-allowed"] == 6
    assert len(network.events(ev.SubscriptionAdded)) == 1
    network.udp.receive(subscription("10.0.0.9", off=True), "10.0.0.2")
    assert sessions(network) == {}


def subscription(host: str, app_key: str = "tv", *, off: bool = False) -> bytes:
    return inbus.unsubscribe(app_key, host, 5000) if off else inbus.subscribe(app_key, host, 5000, 2)


def test_another_user_after_a_reload_begins_another_session() -> None:
    network = server(asks=False)
    network.udp.publish("tv", b"1", source="10.0.0.1")
    network.udp.subscribe("tv", host="10.0.0.9")
    network.udp.subscribe("tv", host="10.9.0.1")
    give(network, ((ip_network("10.0.0.0/24"), "desk"), (ip_network("10.9.0.0/16"), "far")))
    assert sessions(network) == {"10.0.0.9:5000": "desk", "10.9.0.1:5000": "far"}
    (closed,) = network.events(ev.SessionClosed)
    assert (closed.peer, closed.actor, closed.reason) == ("10.0.0.1", "cam", "user-withdrawn")
    give(network, ())
    assert sessions(network) == {}
    network.udp.publish("tv", b"1", source="10.0.0.1")
    assert sessions(network) == {"10.0.0.1": None}
    network.bus.access.asks = True
    network.bus.identity.tell_changed()
    network.reactor.advance(0)
    assert sessions(network) == {}
    assert network.events(ev.SessionClosed)[-1].reason == "not-authenticated"


@each_row(
    ("users", "kept"),
    [(CAMERAS, {"10.0.0.1:5000": "cam"}), (CAMERAS[1:], {}), ((), {})],
    ids=["the same", "another user", "nobody"],
)
def test_after_a_restart_only_the_same_user_goes_on(users: UsersOfNetworks, kept: dict[str, str]) -> None:
    before = server()
    before.udp.subscribe("tv", host="10.0.0.1")
    after = Network(before.registry.state.copy(), inbus_users=users)
    assert sessions(after) == kept


class Policy:
    """Lets one user do everything."""

    def __init__(self, user: str) -> None:
        self._user = user

    def permissions(self, user: str, peer: str, protocol: str) -> Permissions:
        return EVERYTHING if user == self._user else NOTHING


@each_row(
    ("user", "allowed"), [("cam", {"10.0.0.1"}), ("desk", {"10.0.0.9"}), ("anonymous", {"10.9.0.1"}), ("eve", set())]
)
def test_with_a_policy_it_decides(user: str, allowed: set[str]) -> None:
    network = server()
    network.bus.access.policy = Policy(user)
    for source in ("10.0.0.1", "10.0.0.9", "10.9.0.1"):
        network.udp.publish("tv", b"1", source=source)
    assert set(sessions(network)) == allowed


@given(
    st.lists(st.tuples(st.sampled_from(["10.0.0.0/30", "10.0.0.0/8", "0.0.0.0/0", "::/0"]), st.sampled_from("ab"))),
    st.sampled_from(["10.0.0.1", "10.0.0.9", "9.9.9.9", "::1", "::ffff:10.0.0.1"]),
)
def test_the_first_network_counts(users: list[tuple[str, str]], source: str) -> None:
    network = Network()
    network.bus.identity.use([], networks={"inbus": tuple((ip_network(each), user) for each, user in users)})
    plain = ip_address(source.removeprefix("::ffff:"))
    wanted = next((user for each, user in users if plain in ip_network(each)), None)
    for _ in range(2):
        proof = network.bus.identity.of_network(source, "inbus")
        assert (None if proof is None else proof.actor) == wanted
    assert network.bus.identity.of_network(source, "spp") is None


def test_the_option() -> None:
    config = configured({"inbus-user": ["10.0.0.0/30=cam", "::/0=a b"]})
    assert config.inbus_user == ((ip_network("10.0.0.0/30"), "cam"), (ip_network("::/0"), "a b"))


@each_row("value", ["10.0.0.0/8", "10.0.0.1/8=cam", "x=cam", "10.0.0.0/8=", "10.0.0.0/8=anonymous", "=cam", 7])
def test_values_that_make_no_sense(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^--inbus-user: "):
        configured({"inbus-user": value})
