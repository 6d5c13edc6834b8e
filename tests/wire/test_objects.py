"""Objects, to events and back: framing and faults."""

import json
import time
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from msgspec import UNSET

from bussrv.errors import REASONS, RemoteProtocolError
from bussrv.wire import head as heads
from bussrv.wire import objects
from bussrv.wire.faults import check_text
from bussrv.wire.forwarded import with_route
from bussrv.wire.objects import BadObject, BusObject, ObjectReader, encode, read_head
from tests.tables import each_row
from tests.wire import chunks as chunked
from tests.wire.chunks import chunks_of, in_bytes

VECTORS = {
    name: json.loads(Path(__file__).parents[1].joinpath("vectors", f"{name}.json").read_text("utf-8"))
    for name in ("objects", "business")
}
EVERY = [(name, vector) for name, file in VECTORS.items() for vector in file["vectors"]]

every_vector = each_row(
    "vector", [vector for _, vector in EVERY], ids=[f"{name}: {vector['name']}" for name, vector in EVERY]
)

TAIL = b'{"event":"tail"}\0'
MALFORMED_TAIL = b'{"event":\xff}\0 what follows has no meaning'


def raw(vector):
    """The bytes of a vector. Long runs of one text are written as that text and how often it comes."""
    if "hex" in vector:
        return bytes.fromhex(vector["hex"])
    parts = vector.get("text_parts", [vector.get("text")])
    return "".join(part if isinstance(part, str) else part["repeat"] * part["times"] for part in parts).encode()


def seen(event):
    """An event as the vectors write it."""
    if isinstance(event, BadObject):
        return {"bad": {"id": event.id, "reason": event.reason, "message": event.message}}
    return {"fields": event.fields(), "payload": event.payload.hex()}


def read(chunks, **limits):
    """The events of a connection, and what its error says, or ``None``."""
    reader = ObjectReader(**limits)
    events, held, error = chunked.read(reader, chunks)
    assert max(held, default=0) <= max(reader._max_metadata, reader._max_payload)
    said = error and {"reason": error.reason, "message": error.message, "position": error.position}
    return [*chain.from_iterable(events)], said


# Vectors.


@every_vector
@each_row("cut", [lambda data: [data], in_bytes], ids=["whole", "byte by byte"])
@each_row("tail", [b"", TAIL, MALFORMED_TAIL], ids=["alone", "with a tail", "with a malformed tail"])
def test_vectors(vector, cut, tail):
    if "not whole" in vector["name"]:
        tail = b""
    events, error = read(cut(raw(vector) + tail))
    expected, expected_error = list(vector["events"]), vector.get("error")
    if expected_error is None and tail == TAIL:
        expected.append({"fields": {"event": "tail"}, "payload": ""})
    if expected_error is None and tail == MALFORMED_TAIL:
        expected_error = {
            "reason": "bad-utf8",
            "message": "metadata is not UTF-8: invalid start byte at byte 9",
            "position": 9,
        }
    assert ([seen(event) for event in events], error) == (expected, expected_error)


def test_vectors_show_every_event_of_the_seeds():
    def shown(name):
        return {
            event["fields"].get("event")
            for each in VECTORS[name]["vectors"]
            for event in each["events"]
            if "fields" in event
        }

    assert shown("objects") >= {
        "services/request",
        "services/reply",
        "services/register",
        "services/discovery",
        "services/discovery/reply",
        "routing/subscribe",
        "routing/subscribe/reply",
        "routing/subscribe/notify",
        "routing/disconnect",
        "routing/neighbors",
        "routing/neighbors/reply",
    }
    assert shown("business") >= {
        "client/register",
        "services/register",
        "services/unregister",
        "services/list",
        "error",
        None,
    }


def test_vectors_show_every_error():
    shown = {vector["error"]["reason"] for _, vector in EVERY if "error" in vector}
    assert shown == {
        "bad-utf8",
        "bad-json",
        "not-an-object",
        "bad-size",
        "metadata-too-large",
        "payload-too-large",
        "nesting-too-deep",
    }
    assert shown <= REASONS.keys()


# Metadata as text: any JSON object, in any spelling of it.

SPELLINGS = {
    "null": None,
    "true": True,
    "0": 0,
    "-0": 0,
    "1": 1,
    "1.0": 1.0,
    "1e3": 1000.0,
    "1E+2": 100.0,
    "0.1e1": 1.0,
    "1180591620717411303424": 1 << 70,
    "-5": -5,
    "1e999": float("inf"),
    "9" * 5000: None,
}
KEYS = ["event", "type", "id", "to", "sender", "natures", "route", "x", "name", "", "é€😀"]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
blanks = st.sampled_from(["", "", "", " ", "\t", "\r\n "])


@st.composite
def json_strings(draw, values=texts):
    """A string as JSON text, each character plain or escaped."""
    spelt = []
    for character in draw(values):
        escaped = json.dumps(character)[1:-1]
        plain = json.dumps(character, ensure_ascii=False)[1:-1]
        as_code = "".join(f"\\u{unit:04X}" for unit in utf16(character))
        spelt.append(draw(st.sampled_from([plain, plain, plain, escaped, as_code])))
    return '"' + "".join(spelt) + '"'


def utf16(character):
    data = character.encode("utf-16-be")
    return [int.from_bytes(data[index : index + 2], "big") for index in range(0, len(data), 2)]


@st.composite
def arrays(draw, inner):
    items = [draw(blanks) + draw(inner) + draw(blanks) for _ in range(draw(st.integers(0, 3)))]
    return "[" + ",".join(items) + "]"


def members(keys, values, most=3):
    """The members of a JSON object, each as the text of its key and of its value."""
    return st.lists(st.tuples(keys, values), max_size=most)


@st.composite
def written(draw, pairs):
    """A JSON object with these members, and blanks anywhere."""
    spelt = [f"{draw(blanks)}{key}{draw(blanks)}:{draw(blanks)}{value}{draw(blanks)}" for key, value in pairs]
    return "{" + (",".join(spelt) or draw(blanks)) + "}"


scalars = st.one_of(
    json_strings(), st.sampled_from(list(SPELLINGS)), st.sampled_from(['"a"', '["a","b"]', '["a",1]', "7"])
)
values = st.recursive(
    scalars,
    lambda inner: arrays(inner) | members(json_strings(), inner).flatmap(written),
    max_leaves=6,
)
sizes = st.sampled_from(
    ["0", "1", "5", "-1", "1.0", "-0", '"5"', "null", "true", "1e999", "9" * 5000, "1180591620717411303424"]
)
ids = st.sampled_from(['"x"', "7", "1e3", "1.0", "true", "null", '""', "1180591620717411303424"])
strings = json_strings()
fitting = st.one_of(
    st.tuples(json_strings(st.sampled_from(["event", "type", "sender"])), strings),
    st.tuples(json_strings(st.sampled_from(["to", "natures"])), strings | arrays(strings)),
    st.tuples(json_strings(st.just("id")), ids),
    st.tuples(json_strings(st.sampled_from(["route", "x", "name", "", "é€😀"])), values),
)
anything = st.tuples(json_strings(st.sampled_from(KEYS)), values)


@st.composite
def metadata_texts(draw, with_size=False):
    """The text of metadata: any attributes in any order, some of them twice, some with wrong kinds of values."""
    pairs = draw(st.lists(st.one_of(fitting, fitting, fitting, anything), max_size=6))
    if with_size and draw(st.booleans()):
        pairs.insert(draw(st.integers(0, len(pairs))), (draw(json_strings(st.just("size"))), draw(sizes)))
    return draw(blanks) + draw(written(pairs)) + draw(blanks)


def raw_members(text):
    """The members of a JSON object as they stand in it: key (decoded) and value (the very text)."""
    decoder = json.JSONDecoder()

    def skip(at):
        while text[at] in " \t\r\n":
            at += 1
        return at

    found, at = [], skip(skip(0) + 1)
    while text[at] != "}":
        key, at = decoder.raw_decode(text, at)
        at = skip(skip(at) + 1)
        end = value_end(decoder, text, at)
        found.append((key, text[at:end]))
        at = skip(end)
        at = skip(at + 1) if text[at] == "," else at
    return found


def value_end(decoder, text, at):
    """Numbers are looked for by hand: Python's decoder does not convert the longest."""
    end = at
    while text[end] in "+-.0123456789eE":
        end += 1
    return end if end > at else JSON_ANY.raw_decode(text, at)[1]


JSON_ANY = json.JSONDecoder(parse_int=str, parse_float=str)


# What is read.

fields_of_clients = st.dictionaries(
    st.one_of(
        st.sampled_from(["event", "type", "sender"]),
        texts.filter(lambda key: key not in ("size", "id", "to", "natures")),
    ),
    texts,
    max_size=4,
)
payloads = st.binary(max_size=30)


@given(fields_of_clients, payloads)
def test_what_is_encoded_is_read(fields, payload):
    data = encode(fields, payload)
    [event], error = read([data])
    assert error is None
    assert isinstance(event, BusObject)
    assert event.payload == payload
    assert event.fields() == ({**fields, "size": len(payload)} if payload else fields)
    assert (event.head.event, event.head.type, event.head.size) == (
        fields.get("event"),
        fields.get("type"),
        len(payload),
    )


def test_a_size_that_was_given_is_put_right():
    assert encode({"size": 7, "type": "t"}) == b'{"size":0,"type":"t"}\0'
    assert encode({"size": 7, "type": "t"}, b"ab") == b'{"size":2,"type":"t"}\0ab'
    assert encode(b'{"size":2}', b"ab") == b'{"size":2}\0ab'


streams = st.lists(
    st.one_of(
        st.builds(encode, fields_of_clients, payloads),
        st.sampled_from(
            [raw(vector) for _, vector in EVERY if "error" not in vector and "not whole" not in vector["name"]]
        ),
    ),
    max_size=5,
).map(b"".join)


@given(streams, st.sampled_from([b"", b'{"half', MALFORMED_TAIL, b"[]\0{}\0"]), st.data())
def test_every_chunking_gives_the_same_events(data, tail, draw):
    whole = read([data + tail])
    assert read(in_bytes(data + tail)) == whole
    assert read(draw.draw(chunks_of(data + tail))) == whole
    if tail in (MALFORMED_TAIL, b"[]\0{}\0"):
        assert whole[0] == read([data])[0]
        assert whole[1] is not None


@given(streams)
def test_no_byte_is_lost(data):
    events, error = read([data])
    assume(not any(isinstance(event, BadObject) for event in events))
    assert error is None
    assert b"".join(encode(event.metadata, event.payload) for event in events) == data


@st.composite
def mutated(draw):
    """A stream of which a few bytes are something else."""
    data = bytearray(draw(streams) or b"{}\0")
    for _ in range(draw(st.integers(1, 4))):
        index = draw(st.integers(0, len(data) - 1))
        new = draw(
            st.one_of(st.binary(max_size=2), st.sampled_from([b'"', b"[", b"}", b"\\", b"\\ud800", b"1e999", b"\0"]))
        )
        data[index : index + draw(st.integers(0, 2))] = new or b" "
    return bytes(data)


@given(
    st.one_of(
        st.binary(max_size=80), mutated(), metadata_texts(with_size=True).map(lambda text: text.encode() + b"\0abcde")
    )
)
@example(b'{"size":1e999}\0')
@example(b'{"type":[1e999]}\0')
@example(b'{"event":"x","y":' + b"9" * 5000 + b"}\0")
@example(b'{"event":"x","y":1e999,"z":' + b"9" * 5000 + b"}\0")
def test_any_bytes_give_events_or_a_protocol_error(data):
    events, error = read([data], max_metadata=6000, max_payload=50, max_nesting=5)
    assert error is None or error["reason"] in REASONS
    assert error is None or error["message"].isprintable()
    for event in events:
        if isinstance(event, BadObject):
            assert event.reason == "bad-attribute"
            objects.encode_json({"in-reply-to": event.id, "message": event.message})
        else:
            assert isinstance(event.fields(), dict)
            assert bytes(read_head(with_route(event, b'["a"]', lambda: "new")).route) == b'["a"]'


@given(mutated(), st.data())
def test_every_chunking_of_an_altered_stream_gives_the_same(data, draw):
    limits = {"max_metadata": 6000, "max_payload": 200, "max_nesting": 5}
    whole = read([data], **limits)
    assert read(in_bytes(data), **limits) == whole
    assert read(draw.draw(chunks_of(data)), **limits) == whole


@given(streams, st.integers(0, 10), st.data())
def test_a_payload_that_is_not_gathered_changes_only_itself(data, most, draw):
    expected, error = read([data])
    reader = ObjectReader()
    reader.gather(most)
    events, _, said = chunked.read(reader, draw.draw(chunks_of(data)))
    assert (said and said.reason) == (error and error["reason"])
    for event, whole in zip(chain.from_iterable(events), expected, strict=True):
        if isinstance(event, BusObject) and event.head.size > most and not event.payload:
            assert (event.metadata, event.head) == (whole.metadata, whole.head)
        else:
            assert event == whole


@each_row("metadata", [b'{"size":1000000}', b'{"size":1000000,"to":7}'], ids=["sound", "bad"])
def test_a_payload_that_is_not_gathered_is_not_held(metadata):
    reader = ObjectReader()
    reader.gather(1000)
    data = metadata + b"\0" + bytes(1_000_000) + TAIL
    events, held, error = chunked.read(reader, [data[at : at + 7000] for at in range(0, len(data), 7000)])
    first, last = chain.from_iterable(events)
    assert (max(held), error) == (0, None)
    assert isinstance(first, BadObject) or first.payload == b""
    assert seen(last) == {"fields": {"event": "tail"}, "payload": ""}


def test_an_error_is_the_last_event():
    reader = ObjectReader()
    reader.feed(b"[]\0{}\0")
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="metadata is an array"):
            reader.next_event()
        reader.feed(b"{}\0")


# Limits.


def test_metadata_has_a_limit():
    assert read([b'{"a":1}\0'], max_metadata=7)[1] is None
    assert read([b'{"a":12}\0'], max_metadata=7)[1]["reason"] == "metadata-too-large"


def test_too_much_metadata_is_refused_before_it_ends():
    reader = ObjectReader(max_metadata=10)
    reader.feed(b"{" * 10)
    assert reader.next_event() is None
    reader.feed(b"{")
    with pytest.raises(RemoteProtocolError) as caught:
        reader.next_event()
    assert (caught.value.reason, caught.value.position) == ("metadata-too-large", 10)


def test_too_large_a_payload_is_refused_before_it_comes():
    reader = ObjectReader(max_payload=10)
    reader.feed(b'{"type":"x","size":10}\0' + b"p" * 9)
    assert reader.next_event() is None
    reader.feed(b"p" + b'{"type":"x","size":11}\0')
    assert reader.next_event().payload == b"p" * 10
    with pytest.raises(RemoteProtocolError, match="size is 11, the most is 10 bytes"):
        reader.next_event()


def test_the_payload_of_a_bad_object_is_limited_and_skipped():
    assert read([b'{"type":5,"size":11}\0'], max_payload=10)[1]["reason"] == "payload-too-large"
    events, error = read(in_bytes(b'{"type":5,"size":3}\0{}\0{"event":"x"}\0'), max_payload=10)
    assert [type(event) for event in events] == [BadObject, BusObject]
    assert error is None


@given(st.integers(0, 30), st.integers(0, 30), streams, st.data())
def test_what_waits_is_bounded(max_metadata, max_payload, data, draw):
    """``read`` looks at the buffer after each chunk."""
    read(draw.draw(chunks_of(data)), max_metadata=max_metadata, max_payload=max_payload)


@each_row("levels", [1, 2, 5, 64])
def test_nesting_has_a_limit(levels):
    deep = b'{"a":' * (levels - 1) + b"{}" + b"}" * (levels - 1)
    assert read_head(deep, levels) == read_head(b"{}")
    if levels > 1:
        with pytest.raises(RemoteProtocolError) as caught:
            read_head(deep, levels - 1)
        assert (caught.value.reason, caught.value.position) == ("nesting-too-deep", 5 * (levels - 1))


@each_row("most", [1, 5, 64])
def test_nesting_has_the_same_limit_however_few_bytes_it_takes(most):
    for levels, arrays in [(each, arrays) for each in (most, most + 1) for arrays in range(each)]:
        objects_ = levels - arrays
        inner = b"[" * arrays + b"]" * arrays or b"{}"
        outer = objects_ - (arrays == 0)
        deep = b'{"":' * outer + inner + b"}" * outer
        events, error = read([deep + b"\0"], max_nesting=most)
        assert (len(events), error and error["reason"]) == ((1, None) if levels == most else (0, "nesting-too-deep"))


@given(
    st.lists(st.sampled_from(["[", "]", "{", "}", '"[]"', '"\\\\"', '"\\"{"', '"', "\\", "a", ","])), st.integers(1, 3)
)
def test_nesting_is_the_same_however_it_is_found(tokens, most):
    text = "".join(tokens).encode()
    try:
        check_text(text, most)
        found = False
    except RemoteProtocolError:
        found = True
    assert found == is_deeper(text, most)


def is_deeper(text, most):
    """Byte by byte."""
    depth, in_string, is_escaped = 0, False, False
    for byte in text.decode():
        if in_string:
            in_string = is_escaped or byte != '"'
            is_escaped = byte == "\\" and not is_escaped
        elif byte == '"':
            in_string = True
        else:
            depth += (byte in "[{") - (byte in "]}")
            if depth > most:
                return True
    return False


def test_many_brackets_are_checked_in_no_time():
    text = b'{"x":[' + b",".join([b"[]"] * 20000) + b"]}"
    began = time.process_time()
    for _ in range(20):
        check_text(text, 64)
    assert (time.process_time() - began) / 20 < 0.003


def test_nesting_is_not_how_many_there_are():
    assert read_head(b'{"a":[' + b"[],{}," * 100 + b"[]]}", 3) == read_head(b"{}")


@each_row("run", ['"', '\\"', '"\\"', "[]", "{}", '""', "\\", "1", "-", "é", "\\ud800", "[", '{"a":'])
@each_row("opening", ["", "[" * 64 + '{"'], ids=["alone", "behind brackets"])
def test_hostile_metadata_takes_no_time(run, opening):
    metadata = (opening + run * (65536 // len(run.encode()))).encode()
    began = time.process_time()
    with pytest.raises(RemoteProtocolError):
        read_head(metadata)
    assert time.process_time() - began < 2


def test_limits_that_are_lifted_still_raise_nothing_else():
    with pytest.raises(RemoteProtocolError) as caught:
        read_head(b'{"a":' * 60000, max_nesting=1 << 20)
    assert caught.value.reason == "bad-json"


# Both ways of reading metadata.


def outcome(way, metadata):
    try:
        head = way(metadata)
    except RemoteProtocolError as error:
        return error.reason, error.message, error.position
    except heads.Fault as fault:
        return fault.bad, fault.size
    fields = (head.event, head.type, head.size, head.id, head.to, head.sender, head.natures, bytes(head.route))
    return type(head.id), fields


@given(metadata_texts(with_size=True))
@example('{"to":"c1"}')
@example('{"id":1.0}')
@example('{"id":1e3,"sender":7}')
@example('{"natures":"n","to":"c1"}')
@example('{"id":null,"to":null,"event":null,"type":null,"sender":null,"natures":null,"route":null}')
@example('{"size":-1}')
def test_both_ways_of_reading_agree(text):
    metadata = text.encode()
    found = outcome(read_head, metadata)
    assert found == outcome(heads.read_head_tolerantly, metadata)


@given(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["a", "b"]), max_size=5))
def test_ordinary_metadata_is_read_the_fast_way(fields):
    fields = {key: [value] if key == "natures" else value for key, value in fields.items()}
    head = heads.decode_head(json.dumps(fields).encode())
    assert head.event == fields.get("event")


@each_row(
    ("metadata", "attribute", "value"),
    [
        ('{"id":"x"}', "id", "x"),
        ('{"id":7}', "id", 7),
        ('{"id":1.5}', "id", 1.5),
        ('{"id":false}', "id", False),
        ('{"id":null}', "id", None),
        ('{"to":"c1"}', "to", "c1"),
        ('{"to":["c1"],"id":true}', "to", ["c1"]),
        ('{"to":"c1","id":true}', "to", "c1"),
        ('{"natures":"n"}', "natures", ["n"]),
        ('{"natures":["n","m"]}', "natures", ["n", "m"]),
        ('{"sender":7}', "sender", ""),
        ('{"sender":null,"id":true}', "sender", None),
        ('{"event":null,"type":null}', "event", None),
        ('{"size":0}', "size", 0),
        ('{"size":3,"id":true}', "size", 3),
    ],
)
def test_what_is_made_of_attributes(metadata, attribute, value):
    found = getattr(read_head(metadata.encode()), attribute)
    assert (found, type(found)) == (value, type(value))


def test_an_attribute_that_is_not_there_is_told_from_null():
    assert read_head(b"{}").id is UNSET
    assert bytes(read_head(b"{}").route) == b""
    assert bytes(read_head(b'{"route":null}').route) == b"null"
