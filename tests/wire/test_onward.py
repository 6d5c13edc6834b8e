"""Metadata that is passed on: a route that a server wrote makes way for the next one, and nothing else changes."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bussrv.wire.objects import UNSET, BusObject, encode, read_head
from bussrv.wire.onward import PLAIN_ENDING, plain_frame, route_ending, with_route

CAME = b'["c1","cellar"]'
ROUTE = b'["c1","cellar","hall"]'
ENDING = ',"route":["c1","cellar"]}'


def parsed(text):
    metadata = text.encode()
    return BusObject(metadata, read_head(metadata), b"payload")


def passed_on(text):
    return with_route(parsed(text), ROUTE, lambda: "new").decode()


@pytest.mark.parametrize(
    "before",
    [
        '{"id":"1"',
        '{"id":1,"type":"text/plain","size":7',
        '{ "id" : "1" , "x" : [1.0, {"y":2}]\t',
        '{"x":1.0,"x":1.00,"id":false',
        '{"x":":,{","id":"a:b"',
        '{"id":"1","x":",\\"route\\":[\\"c1\\",\\"cellar\\"]}"',
        '{"id":"1","x":{"y":1,"z":["c1","cellar"]}',
    ],
)
def test_metadata_that_ends_with_its_route_keeps_all_that_is_before_it(before):
    assert passed_on(before + ENDING) == f'{before},"route":{ROUTE.decode()}}}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"id":"1","route":["b"],"x":1,"route":["c1","cellar"]}', '{"id":"1","route":%s,"x":1}'),
        ('{"id":"1","rout\\u0065":["b"],"x":[1, 2],"route":["c1","cellar"]}', '{"id":"1","route":%s,"x":[1, 2]}'),
        ('{"route":["c1","cellar"],"id":"1"}', '{"route":%s,"id":"1"}'),
        ('{"route":["c1","cellar"],"id":"1","x":{"y":1,"route":["c1","cellar"]}}', None),
        ('{"id":"1", "route":["c1","cellar"]}', '{"id":"1","route":%s}'),
        ('{"id":"1","route":["c1", "cellar"]}', '{"id":"1","route":%s}'),
        ('{"id":"1","route":["c1","cellar"] }', '{"id":"1","route":%s}'),
        ('{"x":1,"route":["c1","cellar"]}', '{"x":1,"route":%s,"id":"new"}'),
        ('{"id":null,"route":["c1","cellar"]}', '{"id":"new","route":%s}'),
        (
            '{"id":"1","type":"a","type":"b","x":[1, 2],"route":["c1","cellar"]}',
            '{"id":"1","type":"b","x":[1, 2],"route":%s}',
        ),
        ('{"id":"1"}', '{"id":"1","route":%s}'),
    ],
)
def test_all_other_metadata_is_written_anew(text, expected):
    expected = text.replace(CAME.decode(), "%s", 1) if expected is None else expected
    assert passed_on(text) == expected.replace("%s", ROUTE.decode())


def test_what_ends_with_a_route_has_that_route_whatever_else_it_says():
    for text in ('{"x":"' + ENDING, '{"x":",' + ENDING, '{"x":{"y":1' + ENDING, '{"x":[1' + ENDING, '{"x"' + ENDING):
        with pytest.raises(ValueError, match=r".*"):
            json.loads(text)


keys = st.sampled_from(["id", "type", "size", "route", "sender", "event", "x", "a:b", "rout\\u0065", "i\\u0064"])
strings = st.sampled_from(['"1"', '",\\"route\\":"', '"a:b"', "null", '"route"'])
attributes = st.tuples(keys, strings | st.sampled_from(["1", '["c1","cellar"]', '{"route":[],"id":2}', "[ ]", "{}"]))


@st.composite
def texts(draw):
    said = [f'"{key}":{value}' for key, value in draw(st.lists(attributes, min_size=1, max_size=5))]
    space = draw(st.sampled_from(["", "", " "]))
    return "{" + f",{space}".join(said) + draw(st.sampled_from([ENDING, ENDING, "}"]))


@given(texts())
@example('{"id":"1","id":"2"' + ENDING)
@example('{"id":"1","x":1' + ENDING)
@example('{"id":"1","route":["c1","cellar"]' + ENDING)
def test_a_plain_frame_is_what_is_passed_on(text):
    """However many colons there may be: what counts them says how many there have to be at least."""
    try:
        obj = parsed(text)
    except Exception:
        return
    head, ending = obj.head, route_ending(obj.head.route) if obj.head.route else PLAIN_ENDING
    cut = len(ending) if obj.metadata.endswith(ending) else len(PLAIN_ENDING)
    said = sum([head.event is not None, head.type is not None, head.size > 0, bool(head.natures), cut > 1]) + 1
    frame = plain_frame(obj, said, cut, route_ending(ROUTE) + b"\0")
    if frame is not None:
        assert head.id not in (None, UNSET)
        assert frame == encode(with_route(obj, ROUTE, lambda: "new"), b"payload")
    pairs = json.loads(passed_on(text), object_pairs_hook=lambda found: found)
    assert [value for key, value in pairs if key == "route"] == [json.loads(ROUTE)]
    assert [key for key, _ in pairs].count("id") == 1
