"""What follows from the route that an object of a linked server came with."""

import pytest
from msgspec import Raw

from bussrv.bus.paths import MAX_HOPS
from bussrv.bus.ways import MAX_REMEMBERED_ROUTE, MAX_WAYS, Ways
from bussrv.errors import Refused
from bussrv.wire.objects import encode_json


@pytest.fixture
def ways():
    return Ways("s1", "cellar", "hall", 1000)


def way(ways, *route):
    return ways.of(Raw(encode_json(list(route))))


def test_this_server_is_added_to_the_route(ways):
    found = way(ways, "ann", "cellar")
    assert found.route == ["ann", "cellar"]
    assert (found.source.origin.route, found.source.origin.link) == (["ann", "cellar", "hall"], "s1")
    assert found.source.route == b'["ann","cellar","hall"]'
    assert (found.ending, found.source.cut) == (b',"route":["ann","cellar"]}', 26)


def test_a_route_ends_with_who_passed_the_object_on(ways):
    assert way(ways, "ann").route == ["ann", "cellar"]
    assert ways.of(Raw(b"")).route == ["cellar"]


def test_what_a_server_says_itself_is_told_from_what_it_passes_on(ways):
    assert [way(ways, *route).is_word for route in ([], ["cellar"], ["ann"], ["ann", "cellar"])] == [
        True,
        True,
        False,
        False,
    ]


def test_loops_and_long_ways_end(ways):
    most = [f"s{number}" for number in range(MAX_HOPS - 1)]
    assert way(ways, *most, "cellar").refusal is None
    assert way(ways, *most, "s", "cellar").refusal == "link-too-far"
    assert way(ways, "hall", "cellar").refusal == "link-loop"
    assert way(ways, "hall", *most, "s", "cellar").refusal == "link-loop"


def test_objects_come_from_one_place_by_different_ways(ways):
    assert way(ways, "ann", "attic", "cellar").sender == way(ways, "ann", "attic", "barn", "cellar").sender
    assert way(ways, "ann", "attic", "cellar").sender != way(ways, "ann", "cellar").sender
    assert way(ways, "ann").sender == way(ways, "ann", "cellar").sender


def test_there_is_room_for_the_name_of_this_server(ways):
    assert way(ways, "ann", "cellar").longest == 1000 - len(',"hall"')


@pytest.mark.parametrize("route", [b"7", b"null", b'"cellar"', b"[7]", b'{"cellar":1}', b"[null]"])
def test_a_route_is_an_array_of_strings(ways, route):
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            ways.of(Raw(route))
        assert refused.value.reason == "bad-attribute"


def test_a_route_is_looked_at_once(ways):
    assert way(ways, "ann", "cellar") is way(ways, "ann", "cellar")


def test_what_is_remembered_is_bounded(ways):
    first = way(ways, "first")
    for number in range(MAX_WAYS - 1):
        way(ways, str(number))
    assert way(ways, "first") is first
    way(ways, "one more")
    assert way(ways, "first") is not first
    long = "x" * MAX_REMEMBERED_ROUTE
    assert way(ways, long) is not way(ways, long)
