"""Inbus datagrams to values and back."""

import base64
import json
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bussrv.errors import REASONS, RemoteProtocolError
from bussrv.wire import inbus
from bussrv.wire.inbus import Datagram
from tests.tables import each_row

VECTORS = json.loads(Path(__file__).parents[1].joinpath("vectors", "inbus.json").read_text("utf-8"))["vectors"]
GOOD = [vector for vector in VECTORS if "datagram" in vector]
BAD = [vector for vector in VECTORS if "error" in vector]
ELEMENTS = ["version", "opcode", "application", "address", "payload"]


def raw(vector):
    """The bytes of a vector. Long runs of one character are written as that character and how often it comes."""
    if "hex" in vector:
        return bytes.fromhex(vector["hex"])
    parts = vector.get("text_parts", [vector.get("text")])
    return "".join(part if isinstance(part, str) else part["repeat"] * part["times"] for part in parts).encode()


def datagram(vector):
    fields = vector["datagram"]
    return Datagram(**{**fields, "payload": bytes.fromhex(fields["payload"])})


def outcome(decode, data):
    """What a decoder makes of bytes: a datagram, or all that its error says."""
    try:
        return decode(data)
    except RemoteProtocolError as error:
        return error.reason, error.message, error.position


def by_name(vectors):
    return pytest.mark.parametrize("vector", vectors, ids=[vector["name"] for vector in vectors])


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
app_keys = texts.filter(lambda key: key not in inbus.RESERVED_APP_KEYS)
app_types = st.integers(-(1 << 63), (1 << 63) - 1)
ports = st.integers(0, 65535)
versions = st.sampled_from([1, 2])
datagrams = st.one_of(
    st.builds(Datagram, versions, st.sampled_from([1, 2]), app_keys, st.just(0), texts, ports, st.just(b"")),
    st.builds(Datagram, st.just(1), st.just(3), app_keys, app_types, st.just(""), st.just(0), texts.map(str.encode)),
    st.builds(Datagram, st.just(2), st.just(3), app_keys, app_types, st.just(""), st.just(0), st.binary(max_size=40)),
)
json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([0, 1, 2, 3, 65535, 65536, 1 << 63, -(1 << 63) - 1, 10**30]),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from(["*", "_inbus", "upnp", "AAAA", "AA==", "\ud800", "\udc00x"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
near_elements = {
    "version": st.sampled_from([1, 2]),
    "opcode": st.sampled_from([1, 2, 3]),
    "application": st.tuples(st.sampled_from(["upnp", "*", "é"]), st.integers(-2, 2)),
    "address": st.tuples(st.sampled_from(["", "::1"]), st.integers(-1, 2)),
    "payload": st.sampled_from(["", "text", "T21lZ2E=", "T21lZ2E"]),
}


@st.composite
def near_datagrams(draw):
    """JSON that is a datagram but for an element or two: of another kind, absent, twice, or unknown."""
    elements = [(name, draw(near_elements[name])) for name in draw(st.permutations(ELEMENTS))]
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from([*ELEMENTS, "other"]))
        spoilt = (name, draw(json_values))
        index = draw(st.integers(0, len(elements) - 1))
        action = draw(st.sampled_from(["replace", "insert", "drop"]))
        elements[index : index + (action != "insert")] = [] if action == "drop" else [spoilt]
        elements = elements or [spoilt]
    ascii_only = draw(st.booleans())
    members = ",".join(f"{json.dumps(name)}:{json.dumps(value, ensure_ascii=ascii_only)}" for name, value in elements)
    return f"{{{members}}}".encode("utf-8", "surrogatepass")


@st.composite
def altered(draw):
    """The bytes of a datagram, of which a few are something else."""
    data = bytearray(inbus.encode(draw(datagrams)))
    for _ in range(draw(st.integers(1, 4))):
        index = draw(st.integers(0, len(data) - 1))
        new = draw(
            st.one_of(st.binary(max_size=2), st.sampled_from([b'"', b"[", b"]", b"{", b"}", b"\\", b",", b".0"]))
        )
        data[index : index + draw(st.integers(0, 2))] = new or b" "
    return bytes(data)


@by_name(GOOD)
@pytest.mark.parametrize("decode", [inbus.decode, inbus._decode_exactly], ids=["decode", "the slow way"])
def test_good_vectors(vector, decode):
    assert decode(raw(vector)) == datagram(vector)


@by_name(BAD)
def test_bad_vectors(vector):
    wanted = vector["error"]
    with pytest.raises(RemoteProtocolError) as caught:
        inbus.decode(raw(vector))
    assert caught.value.reason == wanted["reason"]
    assert wanted["message"] in caught.value.message
    if wanted["position"] is not None:
        assert caught.value.position == wanted["position"]
    assert inbus._decode_fast(raw(vector)) is None


@by_name([vector for vector in GOOD if "source" in vector])
def test_the_examples_of_the_seed_are_read_fast_and_written_back(vector):
    assert inbus._decode_fast(raw(vector)) == datagram(vector)
    assert inbus.encode(datagram(vector)).decode() == json.dumps(json.loads(raw(vector)), separators=(",", ":"))


def test_vectors_show_every_reason():
    reasons = {vector["error"]["reason"] for vector in BAD}
    assert reasons == {
        "bad-utf8",
        "bad-json",
        "nesting-too-deep",
        "not-an-object",
        "bad-element",
        "bad-version",
        "bad-base64",
        "reserved-opcode",
        "reserved-app-key",
    }
    assert reasons <= REASONS.keys()


@given(datagrams)
def test_what_is_encoded_is_decoded(sent):
    data = inbus.encode(sent)
    assert inbus._decode_fast(data) == sent
    assert inbus._decode_exactly(data) == sent


@given(datagrams)
def test_encoded_datagrams_have_all_elements_in_order(sent):
    fields = json.loads(inbus.encode(sent))
    assert list(fields) == ELEMENTS
    assert fields["application"] == [sent.app_key, sent.app_type]
    assert fields["address"] == [sent.host, sent.port]
    if sent.version == 1:
        assert fields["payload"].encode() == sent.payload
    else:
        assert base64.b64decode(fields["payload"], validate=True) == sent.payload


@given(st.one_of(near_datagrams(), altered()))
@example(b'{"version":1.0,"opcode":1,"application":["",0],"address":["",0],"payload":""}')
@example(b'{"version":1,"opcode":1,"application":["",0],"address":["",0],"payload":"\\ud800"}')
@example(b'{"version":1,"opcode":1,"application":["",0],"address":["",0],"payload":"\xed\xa0\x80"}')
@example(b'{"version":1,"opcode":1,"application":["",0],"address":["",0],"payload":"\xc0\xaf"}')
@example(b'{"version":1,"opcode":1,"application":["",0],"address":["",0],"payload":"\x00"}')
@example(b'{"version":1,"opcode":1,"application":["",0],"address":["",0],"payload":"","payload":0}')
def test_both_ways_of_decoding_agree(data):
    found = outcome(inbus.decode, data)
    assert found == outcome(inbus._decode_exactly, data)
    if isinstance(found, tuple):
        assert found[0] in REASONS
    else:
        assert inbus.decode(inbus.encode(found)) == found


@given(st.binary(max_size=100))
def test_any_bytes_give_a_datagram_or_a_protocol_error(data):
    assert outcome(inbus.decode, data)[0] in REASONS


@given(json_values)
def test_any_json_gives_a_datagram_or_a_protocol_error(value):
    assert outcome(inbus.decode, json.dumps(value).encode())[0] in REASONS


@each_row("opening", ["[", '{"a":', "[[{}],"], ids=["arrays", "objects", "a mixture"])
def test_deep_nesting_is_refused_however_deep_the_stack_is(opening):
    data = (opening * (inbus.MAX_DATAGRAM // len(opening))).encode()

    def deeper(levels):
        return deeper(levels - 1) if levels else outcome(inbus.decode, data)

    assert deeper(0)[0] == deeper(sys.getrecursionlimit() // 2)[0] == "nesting-too-deep"


@each_row("run", ['"', '\\"', '"\\"', "[]", "{}", '""', "\\", "1", "-", "é"])
def test_hostile_datagrams_take_no_time(run):
    text = "[" * 63 + '{"' + run * (inbus.MAX_DATAGRAM // len(run.encode()) - 40)
    assert outcome(inbus.decode, text.encode())[0] in REASONS


def test_numbers_of_any_length_are_read():
    data = b'{"version":1,"opcode":3,"application":["upnp",%b],"address":["",0],"payload":""}'
    assert outcome(inbus.decode, data % (b"9" * 60000))[0] == "bad-element"
    assert inbus.decode(data % b"9223372036854775807").app_type == (1 << 63) - 1


@each_row(
    ("change", "message"),
    [
        ({"version": 0}, "version is 1 or 2, not 0"),
        ({"version": 3}, "version is 1 or 2, not 3"),
        ({"opcode": 0}, "opcode 0 is reserved"),
        ({"opcode": 4}, "opcode 4 is reserved"),
        ({"app_key": "*"}, r"app-key \* is reserved"),
        ({"app_key": "_inbus"}, "app-key _inbus is reserved"),
        ({"app_key": "\ud800"}, "surrogates not allowed"),
        ({"host": "\ud800"}, "surrogates not allowed"),
        ({"port": -1}, "not -1"),
        ({"port": 65536}, "not 65536"),
        ({"app_type": 1 << 63}, "has more"),
        ({"app_type": -(1 << 63) - 1}, "has more"),
        ({"payload": b"\xff"}, "can't decode byte 0xff"),
    ],
)
def test_what_no_datagram_can_say_is_refused(change, message):
    fields = {"version": 1, "opcode": 3, "app_key": "k", "app_type": 1, "host": "", "port": 0, "payload": b""}
    inbus.encode(Datagram(**fields))
    with pytest.raises(ValueError, match=message):
        inbus.encode(Datagram(**{**fields, **change}))


@given(app_keys, texts, ports, versions)
def test_subscribe_and_unsubscribe(app_key, host, port, version):
    assert inbus.decode(inbus.subscribe(app_key, host, port, version)) == Datagram(
        version, 1, app_key, 0, host, port, b""
    )
    assert inbus.decode(inbus.unsubscribe(app_key, host, port, version)) == Datagram(
        version, 2, app_key, 0, host, port, b""
    )


@given(app_keys, app_types, texts)
def test_publish(app_key, app_type, text):
    for version in (1, 2):
        assert inbus.decode(inbus.publish(app_key, app_type, text.encode(), version)) == Datagram(
            version, 3, app_key, app_type, "", 0, text.encode()
        )


def test_what_does_not_apply_is_written_as_zero_or_empty():
    written = [inbus.subscribe("k", "::1", 5), inbus.unsubscribe("k", "::1", 5), inbus.publish("k", 7, b"x")]
    assert written == [
        b'{"version":1,"opcode":1,"application":["k",0],"address":["::1",5],"payload":""}',
        b'{"version":1,"opcode":2,"application":["k",0],"address":["::1",5],"payload":""}',
        b'{"version":1,"opcode":3,"application":["k",7],"address":["",0],"payload":"x"}',
    ]


def test_the_port_and_the_longest_datagram():
    assert (inbus.PORT, inbus.MAX_DATAGRAM) == (7222, 65535 - 20 - 8)


def test_datagrams_never_change():
    sent = inbus.decode(inbus.publish("k", 1, b"x"))
    with pytest.raises(AttributeError):
        sent.payload = b"y"
    assert len({sent, inbus.decode(inbus.publish("k", 1, b"x"))}) == 1


def test_version_1_is_what_is_written_unless_told_otherwise():
    written = [inbus.subscribe("k", "", 0), inbus.unsubscribe("k", "", 0), inbus.publish("k", 1, b"")]
    assert [json.loads(each)["version"] for each in written] == [1, 1, 1]


def test_version_2_carries_any_bytes():
    assert inbus.decode(inbus.publish("k", 1, bytes(range(256)), 2)).payload == bytes(range(256))
