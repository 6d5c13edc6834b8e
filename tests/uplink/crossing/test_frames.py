"""Frames: what is packed comes out again, and nothing else is taken for a frame."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.errors import RemoteProtocolError
from bussrv.uplink.crossing.arrivals import Arrivals
from bussrv.uplink.crossing.frames import MOST_NUMBER, overhead, pack, pack_parts, unpack

BOOT = b"12345678"
origins = st.text(min_size=1, max_size=20)
objects = st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=20)
numbers = st.integers(1, MOST_NUMBER)


@given(origins, numbers, objects)
def test_a_frame_has_what_was_packed(origin, number, objs):
    data = pack(origin, BOOT, number, objs)
    frame = unpack(data)
    assert (frame.origin, frame.boot, frame.number, frame.count) == (origin, BOOT, number, len(objs))
    assert frame.body == b"".join(objs)
    assert list(frame.lengths) == list(map(len, objs))
    assert len(data) == overhead(origin, len(objs)) + len(frame.body)
    for place in range(len(objs) + 1):
        assert frame.after(number + place) == b"".join(objs[place:])


@given(origins, numbers, st.binary(min_size=1, max_size=500), st.integers(120, 200))
def test_parts_become_the_object_again(origin, number, whole, most):
    arrivals = Arrivals(1000)
    bodies = [arrivals.take("s", unpack(part)).body for part in pack_parts(origin, BOOT, number, whole, most)]
    assert b"".join(bodies) == whole
    assert bodies[-1] == whole


@given(origins, numbers, objects, st.data())
def test_what_is_cut_or_changed_is_no_frame(origin, number, objs, data):
    packed = pack(origin, BOOT, number, objs)
    cut = data.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(RemoteProtocolError, match="no frame"):
        unpack(packed[:cut])
    with pytest.raises(RemoteProtocolError, match="no frame"):
        unpack(packed + b"x")


@given(st.binary(max_size=200))
def test_bytes_of_strangers_do_no_harm(data):
    with suppress(RemoteProtocolError):
        frame = unpack(b"b1" + data)
        assert frame.part is not None or len(frame.body) == sum(frame.lengths)
