"""bussrv linked with servers that go by ``route`` alone: nobody is given anything twice, and nothing is lost."""

from collections import Counter
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bus.links.route_only import Mixed
from tests.size import sample, sized
from tests.tables import each_row

Edges = list[tuple[str, str]]


def neighbours(names: str, edges: Edges) -> dict[str, set[str]]:
    return {name: {other for edge in edges if name in edge for other in edge} - {name} for name in names}


def is_connected(names: str, edges: Edges) -> bool:
    near, found, edge = neighbours(names, edges), {names[0]}, [names[0]]
    while edge:
        new = near[edge.pop()] - found
        found |= new
        edge += new
    return found == set(names)


def holds(names: str, bus: str, edges: Edges) -> bool:
    """Whether any two servers that serve the same route-only server are linked with each other."""
    near = neighbours(names, edges)
    return all(two in near[one] for name in names if name not in bus for one, two in combinations(near[name], 2))


def alone(names: str, edges: Edges, sender: str) -> Counter[str]:
    """How often each client is given an object if all servers are route-only."""
    network = Mixed("", names, edges)
    network.say(sender, 1)
    return Counter(network.copies(1)) | Counter({sender: 1})


def check(names: str, bus: str, edges: Edges) -> None:
    network = Mixed(bus, "".join(sorted(set(names) - set(bus))), edges)
    for number, sender in enumerate(names):
        network.say(sender, number)
        got = {name: count for name, count in network.copies(number).items() if name != sender}
        assert min(got.values()) >= 1, (bus, edges, sender, got)
        if holds(names, bus, edges):
            assert max(got.values()) == 1, (bus, edges, sender, got)
        else:
            most = alone(names, edges, sender)
            assert all(count <= most[name] for name, count in got.items()), (bus, edges, sender, got, most)


def graphs(names: str) -> list[Edges]:
    pairs = list(combinations(names, 2))
    chosen = [
        [pair for pair, taken in zip(pairs, bits, strict=True) if taken] for bits in product([0, 1], repeat=len(pairs))
    ]
    return [edges for edges in chosen if is_connected(names, edges)]


@pytest.mark.dear
@each_row("names", ["ab", "abc", "abcd"])
def test_in_every_small_graph_nothing_is_doubled_or_lost(names: str) -> None:
    for edges in graphs(names) if len(names) < 4 else sample(graphs(names)):
        for kinds in product([True, False], repeat=len(names)):
            bus = "".join(name for name, is_bus in zip(names, kinds, strict=True) if is_bus)
            if bus not in ("", names):
                check(names, bus, edges)


FIVE = graphs("abcde")


@settings(max_examples=sized(300), deadline=None)
@given(st.sampled_from(FIVE), st.sets(st.sampled_from("abcde"), min_size=1, max_size=4))
def test_in_graphs_of_five_nothing_is_doubled_or_lost(edges: Edges, bus: set[str]) -> None:
    check("abcde", "".join(sorted(bus)), edges)


# Requests.


def provider_of(network: Mixed, name: str, service: str) -> Any:
    provider = network.fabric[name].member(receive_mode="no_echo")
    provider.send({"event": "services/register", "name": service})
    network.settle()
    provider.received()
    return provider


def test_a_request_from_a_triangle_is_worked_on_once() -> None:
    network = Mixed("ab", "x", [("a", "b"), ("a", "x"), ("b", "x")])
    providers = [provider_of(network, name, "tv") for name in "aabb"]
    for number in range(12):
        network.say("x", number, b"", event="services/request", name="tv", type=None)
        asked = [head for provider in providers for head in provider.heads() if head.get("event") == "services/request"]
        assert [head["number"] for head in asked] == [number]


def test_a_request_for_an_unregistered_service_is_worked_on_once() -> None:
    network = Mixed("ab", "xy", [*combinations("abxy", 2)])
    for each in network.route_only.values():
        each.answers = {"tv"}
    for number, sender in enumerate("ab"):
        network.say(sender, number, b"", event="services/request", name="tv", type=None)
        assert [network.copies(number)[name] for name in "xy"] == [1, 1]


def test_a_request_past_a_route_only_server_goes_to_nobody_else() -> None:
    network = Mixed("ab", "xy", [*combinations("abxy", 2)])
    link = network.route_only["x"].links["a"]
    link.send({"event": "services/register", "name": "tv", "routing-id": "client-x", "route": ["client-x", "x"]})
    network.settle()
    network.route_only["x"].answers = network.route_only["y"].answers = {"tv"}
    network.say("a", 1, b"", event="services/request", name="tv", type=None)
    assert network.copies(1) == {"x": 1, "y": 0, "a": 0, "b": 0}
