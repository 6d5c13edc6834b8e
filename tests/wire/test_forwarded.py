"""Metadata that is passed on: a route that a server wrote makes way for the next one, and nothing else changes."""

import json

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from bussrv.errors import RemoteProtocolError
from bussrv.wire.forwarded import PLAIN_ENDING, plain_frame, route_ending, with_route
from bussrv.wire.head import Fault, read_head
from bussrv.wire.objects import BusObject, encode
from tests.tables import each_row
from tests.wire.test_objects import (
    arrays,
    ids,
    json_strings,
    members,
    metadata_texts,
    raw_members,
    values,
    written,
)

CAME = b'["c1","cellar"]'
ROUTE = b'["c1","cellar","hall"]'
ENDING = ',"route":["c1","cellar"]}'


def passed_on(text):
    """The metadata as it goes on; ``None`` if it does not."""
    metadata = text.encode()
    try:
        head = read_head(metadata)
    except (Fault, RemoteProtocolError):
        return None
    return with_route(BusObject(metadata, head), ROUTE, lambda: "new")


@each_row(
    "before",
    [
        '{"id":"1"',
        '{"id":1,"type":"text/plain","size":7',
        '{ "id" : "1" , "x" : [1.0, {"y":2}]\t',
        '{"x":1.0,"y":1.00,"id":false',
        '{"x":":,{","id":"a:b"',
        '{"id":"1","x":",\\"route\\":[\\"c1\\",\\"cellar\\"]}"',
        '{"id":"1","x":{"y":1,"z":["c1","cellar"]}',
    ],
)
def test_metadata_ending_with_its_route_keeps_all_before_it(before):
    assert passed_on(before + ENDING).decode() == f'{before},"route":{ROUTE.decode()}}}'


@each_row(
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
        ('{"x":1.0,"x":1.00,"id":false,"route":["c1","cellar"]}', '{"x":1.00,"id":false,"route":%s}'),
        ('{"id":"1"}', '{"id":"1","route":%s}'),
    ],
)
def test_all_other_metadata_is_written_anew(text, expected):
    expected = text.replace(CAME.decode(), "%s", 1) if expected is None else expected
    assert passed_on(text).decode() == expected.replace("%s", ROUTE.decode())


def test_metadata_that_ends_with_a_route_has_that_route():
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
@example('{"event":"1"}')
@example('{"event":"1"' + ENDING)
@example('{"event":"a:b","sender":"1"}')
def test_a_plain_frame_is_what_is_passed_on(text):
    """However many colons there may be: what counts them says how many there have to be at least."""
    passed = passed_on(text)
    assume(passed is not None)
    obj = BusObject(text.encode(), read_head(text.encode()), b"payload")
    head, ending = obj.head, route_ending(obj.head.route) if obj.head.route else PLAIN_ENDING
    cut = len(ending) if obj.metadata.endswith(ending) else len(PLAIN_ENDING)
    said = sum([head.event is not None, head.type is not None, head.size > 0, bool(head.natures), cut > 1]) + 1
    frame = plain_frame(obj, said, cut, route_ending(ROUTE) + b"\0", lambda: "new")
    if frame is not None:
        assert head.id is not None
        assert frame == encode(passed, b"payload")
    pairs = json.loads(passed, object_pairs_hook=lambda found: found)
    assert [value for key, value in pairs if key == "route"] == [json.loads(ROUTE)]
    assert [key for key, _ in pairs].count("id") == 1


# Everything that metadata may be.


@given(metadata_texts())
@example("{}")
@example(" { } ")
@example('{"id":null}')
@example('{"id":"x","id":"y"}')
@example('{"id":null,"id":"y"}')
@example('{"id":"x","id":null}')
@example('{"id":"x","i\\u0064":"y"}')
@example('{"\\u0069d":"x","\\u0069\\u0064":"y"}')
@example('{"r\\u006fute":["forged"]}')
@example('{"route":["forged"],"x":1.0,"route":["again"],"y":1180591620717411303424}')
@example('{"route":[],"id":"x"}')
@example('{"x":"\\"id\\"","id":"x"}')
@example('{"x": 1.0 , "id" : 1e3 }')
@example('{"x":[1.0, 1e3,\n{"route":["inner"],"id":1}],"route":["forged"]}')
def test_what_is_passed_on(text):
    """The same attributes in the same order, with the same text for values, apart from ``route`` and ``id``."""
    result = passed_on(text)
    assume(result is not None)
    before, after = raw_members(text), raw_members(result.decode())
    last, expected = dict(after), dict(before)
    if expected.get("id", "null") == "null":
        expected["id"] = '"new"'
    expected["route"] = ROUTE.decode()
    assert list(last.items()) == list(expected.items())
    names = [key for key, _ in after]
    assert names.count("route") == names.count("id") == 1


confusing = st.lists(
    st.sampled_from(["id", "route", "size", "to", ":", '"', ",", "{", "}", "\\", "d", '"id":', "\\u0069", " ", "é"]),
    max_size=4,
).map("".join)
confusing_strings = json_strings(confusing)


@st.composite
def confusing_texts(draw):
    """Metadata in which keys and values look like other attributes, and some of it is there twice."""
    keys = json_strings(st.one_of(confusing, st.sampled_from(["id", "type", "event", "sender", "route", "x"])))
    return draw(written(draw(members(keys, st.one_of(confusing_strings, arrays(confusing_strings)), most=5))))


@given(st.one_of(confusing_texts(), metadata_texts()))
@example('{"x":"\\"id\\":\\"a\\"","id":"b"}')
@example('{"\\"id\\"":"a","id":"b"}')
@example('{"a:b":1,"id":"x","id":"y"}')
@example('{"x":{"id":1,"route":[]},"type":"t","type":"u"}')
@example('{"type":"t","\\u0074ype":"u","x":":"}')
@example('{"size":""}')
@example('{"event":"services/request","name":"vault","name":"open/none"}')
@example('{"a b": ":", "n\u0061me": 1 , "name": 2}')
@example('{"x": ":", "y": {"z": 1, "z": 2}}')
def test_what_is_passed_on_means_the_same_to_every_reader(text):
    """Whichever of two equal keys a reader goes by: no key is there twice, and each has the value that routing took."""
    result = passed_on(text)
    assume(result is not None)
    sent, plain = raw_members(result.decode()), dict(raw_members(text))
    if plain.get("id", "null") == "null":
        plain["id"] = '"new"'
    plain["route"] = ROUTE.decode()
    assert dict(sent) == plain
    names = [key for key, _ in sent]
    assert len(set(names)) == len(names)
    assert {"id", "route"} <= set(names)


@st.composite
def unrouted(draw):
    """Metadata without a route, and whether it has an id, which stands there plainly and once."""
    pairs = draw(members(json_strings(st.sampled_from(["x", "sender", "", "é€😀"])), values, most=4))
    given_ids = draw(st.lists(st.tuples(st.just('"id"'), ids.filter(lambda value: value != "null")), max_size=1))
    assume(pairs + given_ids)
    text = draw(written(pairs + given_ids))
    return text[:-1].rstrip(" \t\r\n") + "}", bool(given_ids)


@given(unrouted())
@example(('{"x":"\\u0069"}', False))
@example(('{"x": "\\"id\\": 1", "y": {"id": 1, "z": 1, "z": 2}}', False))
@example(('{"x": ":", "y": 1180591620717411303424e99999}', False))
def test_without_a_route_and_repeated_keys_bytes_stay_the_same(sent):
    text, has_id = sent
    names = [key for key, _ in raw_members(text)]
    assume(len(set(names)) == len(names))
    fresh = "" if has_id else '"id":"new",'
    assert passed_on(text).decode() == f'{text[:-1]},{fresh}"route":{ROUTE.decode()}}}'


def test_an_id_is_only_made_where_there_is_none():
    def no_id():
        raise AssertionError

    for text in ('{"id":"x"}', '{"id":0}', '{"id":false,"route":[]}', '{"id":"" }'):
        metadata = text.encode()
        assert b'"new"' not in with_route(BusObject(metadata, read_head(metadata)), ROUTE, no_id)
