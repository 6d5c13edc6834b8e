"""Facts that follow from the route of an object that a linked server forwarded."""

import pytest
from msgspec import Raw

from bussrv.bus.links.paths import MAX_HOPS
from bussrv.bus.routing.route_cache import MAX_REMEMBERED_ROUTE, MAX_ROUTES, RouteCache
from bussrv.errors import Refused
from bussrv.wire.objects import encode_json


@pytest.fixture
def routes():
    return RouteCache("s1", "cellar", "hall", 1000)


def facts_of(routes, *route):
    return routes.of(Raw(encode_json(list(route))))


def test_this_server_is_added_to_the_route(routes):
    found = facts_of(routes, "ann", "cellar")
    assert found.route == ["ann", "cellar"]
    assert (found.source.origin.route, found.source.origin.link) == (["ann", "cellar", "hall"], "s1")
    assert found.source.route == b'["ann","cellar","hall"]'
    assert (found.ending, found.source.cut) == (b',"route":["ann","cellar"]}', 26)


def test_a_route_ends_with_the_neighbour(routes):
    assert facts_of(routes, "ann").route == ["ann", "cellar"]
    assert routes.of(Raw(b"")).route == ["cellar"]


@pytest.mark.parametrize(
    "route",
    [["ann", "cellar", "attic"], ["ann", "cellar", "attic", "cellar"], ["ann", "cellar", "cellar"], ["cellar"] * 2],
)
def test_no_server_stands_in_a_route_twice(routes, route):
    forwarded = facts_of(routes, *route).source.origin.route
    assert len(set(forwarded)) == len(forwarded)
    assert {*route, "cellar", "hall"} == set(forwarded)


def test_objects_of_the_neighbour_itself_are_recognized(routes):
    assert [facts_of(routes, *route).is_from_neighbour for route in ([], ["cellar"], ["ann"], ["ann", "cellar"])] == [
        True,
        True,
        False,
        False,
    ]


def test_loops_and_long_routes_are_refused(routes):
    most = [f"s{number}" for number in range(MAX_HOPS - 1)]
    assert facts_of(routes, *most, "cellar").refusal is None
    assert facts_of(routes, *most, "s", "cellar").refusal == "link-too-far"
    assert facts_of(routes, "hall", "cellar").refusal == "link-loop"
    assert facts_of(routes, "hall", *most, "s", "cellar").refusal == "link-loop"


def test_objects_come_from_one_place_by_different_ways(routes):
    assert (
        facts_of(routes, "ann", "attic", "cellar").origin_key
        == facts_of(routes, "ann", "attic", "barn", "cellar").origin_key
    )
    assert facts_of(routes, "ann", "attic", "cellar").origin_key != facts_of(routes, "ann", "cellar").origin_key
    assert facts_of(routes, "ann").origin_key == facts_of(routes, "ann", "cellar").origin_key


@pytest.fixture
def exact():
    return RouteCache("s1", "cellar", "hall", 1000, keeps_marks=True)


def test_ids_after_the_forwarding_server_are_marks_and_stay_last(routes, exact):
    for each in (routes, exact):
        found = facts_of(each, "ann", "attic", "cellar", "barn", "shed")
        assert found.route == ["ann", "attic", "cellar"]
        assert found.source.origin.route == ["ann", "attic", "cellar", "hall", "barn", "shed"]
        assert found.source.origin.is_marked
    assert not facts_of(exact, "ann", "attic", "barn", "cellar").source.origin.is_marked


def test_marks_are_no_hops(routes, exact):
    marks = [f"m{number}" for number in range(64)]
    assert facts_of(routes, "ann", "cellar", *marks).refusal is None
    assert facts_of(exact, "ann", *(f"s{number}" for number in range(14)), "cellar", *marks).refusal is None
    assert facts_of(exact, "ann", *(f"s{number}" for number in range(15)), "cellar", *marks).refusal == "link-too-far"


def test_what_a_route_only_server_leaves_unclear_counts_as_marks(routes, exact):
    assert facts_of(routes, "ann", "attic", "barn", "shed", "cellar", "byre").source.origin.route == [
        *("ann", "attic", "cellar", "hall", "barn", "shed", "byre")
    ]
    assert facts_of(exact, "ann", "attic", "barn", "cellar").source.origin.route == [
        "ann",
        "attic",
        "barn",
        "cellar",
        "hall",
    ]


def test_known_servers_do_not_count_where_they_may_be_marks():
    known = set()
    routes = RouteCache("s1", "cellar", "hall", 1000, is_server=known.__contains__)
    unclear = [f"m{number}" for number in range(30)]
    assert facts_of(routes, "ann", "attic", *unclear, "cellar").refusal == "link-too-far"
    known.update(unclear)
    assert facts_of(routes, "ann", "attic", *unclear, "cellar").refusal is None


def test_there_is_room_for_the_name_of_this_server(routes):
    assert facts_of(routes, "ann", "cellar").longest == 1000 - len(',"hall"')


@pytest.mark.parametrize("route", [b"7", b"null", b'"cellar"', b"[7]", b'{"cellar":1}', b"[null]"])
def test_a_route_is_an_array_of_strings(routes, route):
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            routes.of(Raw(route))
        assert refused.value.reason == "bad-attribute"


def test_a_route_is_looked_at_once(routes):
    assert facts_of(routes, "ann", "cellar") is facts_of(routes, "ann", "cellar")


def test_what_is_remembered_is_bounded(routes):
    first = facts_of(routes, "first")
    for number in range(MAX_ROUTES - 1):
        facts_of(routes, str(number))
    assert facts_of(routes, "first") is first
    facts_of(routes, "one more")
    assert facts_of(routes, "first") is not first
    long = "x" * MAX_REMEMBERED_ROUTE
    assert facts_of(routes, long) is not facts_of(routes, long)
