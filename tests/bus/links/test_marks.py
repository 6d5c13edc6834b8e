"""Ids that are added to a route, so that servers that go by it alone give nobody anything twice."""

from itertools import combinations

from tests.bus.links.route_only import Mixed


def test_a_copy_for_a_route_only_server_names_other_receivers() -> None:
    network = Mixed("ab", "xy", [*combinations("abxy", 2)])
    network.say("a", 1)
    sender = network.members["a"].routing_id
    for name, other in ("xy", "yx"):
        (route,) = network.route_only[name].routes
        assert (route[:2], set(route[2:])) == ([sender, "a"], {"b", other})


def test_a_copy_for_a_like_server_names_the_route_only_ones() -> None:
    network = Mixed("abc", "x", [*combinations("abx", 2), ("a", "c")])
    network.say("a", 1)
    sender = network.members["a"].routing_id
    assert [[each["route"] for each in network.heard[name]] for name in "bc"] == [
        [[sender, "a", "b", "x"]],
        [[sender, "a", "c", "x"]],
    ]


def test_a_hub_with_sixteen_neighbours_loses_nothing() -> None:
    spokes = "cdefghijklmnopqr"
    network = Mixed("ab", spokes + "zy", [("a", "b"), *(("a", spoke) for spoke in spokes), ("b", "z"), ("c", "y")])
    for number, sender in enumerate("abcrzy"):
        network.say(sender, number)
        got = {name: count for name, count in network.copies(number).items() if name != sender}
        assert set(got.values()) == {1}, (sender, got)


def test_a_clique_of_hub_and_fourteen_neighbours_doubles_nothing() -> None:
    spokes = "cdefghijklmnop"
    network = Mixed("a", spokes, list(combinations("a" + spokes, 2)))
    for number, sender in enumerate("acp"):
        network.say(sender, number)
        got = {name: count for name, count in network.copies(number).items() if name != sender}
        assert set(got.values()) == {1}, (sender, got)


def test_marks_before_a_route_only_server_do_not_count_as_hops() -> None:
    """That server passed on who they are."""
    spokes = "rcdefghijklmnopq"
    network = Mixed("abw", spokes, [("b", "r"), ("w", "b"), *(("a", spoke) for spoke in spokes)])
    for number, sender in enumerate("acw"):
        network.say(sender, number)
        got = {name: count for name, count in network.copies(number).items() if name != sender}
        assert set(got.values()) == {1}, (sender, got)


def test_a_hub_of_servers_that_add_only_themselves_loses_nothing() -> None:
    spokes = "cdefghijklmnopqr"
    network = Mixed("ab", spokes, [("a", spoke) for spoke in spokes] + [("a", "b")])
    for each in network.route_only.values():
        each.marks = False
    for number, sender in enumerate("abcr"):
        network.say(sender, number)
        got = {name: count for name, count in network.copies(number).items() if name != sender}
        assert set(got.values()) == {1}, (sender, got)
