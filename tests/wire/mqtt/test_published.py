"""Messages as the spool has them, and as clients get them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bussrv.wire.mqtt.packets import NO_PROPERTIES, VERSION_5, Properties, Publish
from bussrv.wire.mqtt.published import NO_ID, Format, lifetime_of
from bussrv.wire.mqtt.writer import encode, numbered_publish
from tests.formats.mqtt.peer import VERSIONS

properties = st.just(NO_PROPERTIES) | st.builds(
    Properties,
    message_expiry_interval=st.none() | st.integers(1, 1 << 31),
    content_type=st.none() | st.text("ab", max_size=3),
    subscription_identifiers=st.lists(st.integers(1, 300), max_size=2).map(tuple) | st.just((1,) * 1000),
    user_properties=st.lists(st.tuples(st.text("ab"), st.text("ab")), max_size=2).map(tuple),
)
messages = st.builds(
    Publish,
    topic=st.sampled_from(["tv", "hall/" + "x" * 140]),
    payload=st.sampled_from([b"", b"on", b"x" * 120, b"x" * 20_000]),
    qos=st.integers(0, 2),
    retain=st.booleans(),
    properties=properties,
)


def stored(message: Publish) -> bytes:
    if not message.qos:
        return encode(message, VERSION_5)
    halves = numbered_publish(message, VERSION_5)
    return halves.before + NO_ID + halves.after + halves.payload


@given(messages, st.sampled_from(VERSIONS), st.booleans(), st.integers(1, 0xFFFF), st.integers(1, 1000))
def test_each_version_gets_its_packet(
    message: Publish, version: int, again: bool, number: int, seconds_left: int
) -> None:
    frame = stored(message)
    assert lifetime_of(frame) == message.properties.message_expiry_interval
    again, number = again and message.qos > 0, number if message.qos else 0
    lifetime = lifetime_of(frame)
    left = None if lifetime is None else seconds_left
    found = NO_PROPERTIES
    if version == VERSION_5:
        written = None if left is None or lifetime is None else min(left, lifetime)
        found = replace(message.properties, message_expiry_interval=written)
    wanted = encode(replace(message, id=number, dup=again, properties=found), version)
    assert Format(version, 1 << 20).of(frame, number, again=again, seconds_left=left) == wanted
    assert Format(version, len(wanted)).of(frame, number, again=again, seconds_left=left) == wanted
    assert Format(version, len(wanted) - 1).of(frame, number, again=again, seconds_left=left) is None
