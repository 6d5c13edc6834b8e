"""How many may come in, and how much one may ask for: each limit is kept, counted and journaled with whom it hit."""

from tests.formats.network import Network, limits


def test_all_sessions_together_have_a_limit_of_services() -> None:
    network = Network(max_services_total=2)
    member = network.member(receive_mode="no_echo")
    network.udp.publish("a", b"1")
    for name in ("a", "b", "a", "bus/x"):
        member.send({"event": "services/register", "name": name})
    said = [(fields["event"], fields.get("reason")) for fields in member.heads() if "event" in fields]
    registered = ("services/register/reply", None)
    assert said == [registered, ("error", "too-many-services-in-all"), registered, ("error", "reserved-name")]
    assert limits(network) == [("max-services-total", 2, "too-many-services-in-all", "10.0.0.1:4711")]
    assert network.bus.counters["too-many-services-in-all"] == 1
    network.registry.register_service(member.connection.protocol.session_id, "bus/x", hosted=True)
    server = network.server()
    server.send({"event": "services/register", "name": "far"})
    member.connection.close()
    assert network.registry.state.own_services == 1
    other = network.member()
    other.send({"event": "services/register", "name": "b"})
    assert "services/register/reply" in other.names()


def test_services_that_are_on_their_way_count() -> None:
    network = Network(max_services=1)
    network.journal.hold()
    network.udp.publish("a", b"1")
    network.udp.publish("b", b"1")
    network.journal.release()
    assert set(network.registry.state.services) == {"a"}


def test_limits_of_content_types_and_routing_ids_are_journaled() -> None:
    network = Network(max_patterns=1, max_routing_ids=1)
    member = network.member()
    member.send({"event": "routing/subscribe", "types": ["a/b", "c/d"]})
    member.send({"event": "routing/subscribe", "subscriptions": ["a/b", ["c/d"]]})
    member.send({"event": "routing/subscribe", "routing-ids": ["x", "y"]})
    assert member.names() == ["error"] * 3
    assert [limit[0] for limit in limits(network)] == ["max-patterns", "max-patterns", "max-routing-ids"]
    assert (network.bus.counters["max-patterns"], network.bus.counters["max-routing-ids"]) == (2, 1)


def test_the_limit_of_types_with_inner_wildcards_is_journaled() -> None:
    network = Network(max_wildcard_characters=6)
    member = network.member()
    member.send({"event": "routing/subscribe", "types": ["a*b", "c?d", "text/*", "*/png"]})
    assert member.names() == ["routing/subscribe/reply"]
    member.send({"event": "routing/subscribe", "types": ["a*b", "c?dd"]})
    assert member.names() == ["error"]
    assert [limit[0] for limit in limits(network)] == ["max-wildcard-characters"]
    assert network.bus.counters["max-wildcard-characters"] == 1
