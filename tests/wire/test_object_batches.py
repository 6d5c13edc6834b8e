"""Objects that are read in batches are those that are read one by one."""

import itertools
import random
from operator import length_hint

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.errors import RemoteProtocolError
from bussrv.wire.objects import FIRST_BATCH, LONGEST_BATCH, MAX_ADDED, BusObject, ObjectReader
from tests.tables import each_row
from tests.wire import chunks as chunked
from tests.wire.chunks import cut

LIMITS = {"max_metadata": 120, "max_payload": 40, "max_nesting": 4}

ODD = [
    b'{"size":"2"}',
    b'{"size":1e0}',
    b'{"id":1.5}',
    b'{"id":"\xc3\xa4"}',
    b'{"to":7}',
    b'{"natures":"n","size":2}',
    b'{"x":[[[[]]]]}',
    b'{"x":"[[[[[[[["}',
    b'{"x":"%s"}' % (b"y" * 100),
    b' {"type":"a/b" , "size":2}\n',
]
MALFORMED = [
    b"",
    b"{",
    b"7",
    b'{"id":"\xff"}',
    b'{"x":"\xff"}',
    b'{"x":[[[[[]]]]]}',
    b'{"size":-1}',
    b'{"size":41}',
    b'{"x":"%s"}' % (b"y" * 120),
]

plain = st.builds(
    lambda fields, payload: b'{%b"size":%d}\0%b' % (fields, len(payload), payload),
    st.sampled_from([b"", b'"type":"a/b",', b'"event":"x","id":"1",', b'"to":["c1"],']),
    st.binary(max_size=40),
)
odd = st.builds(
    lambda metadata, payload: metadata + b"\0" + (payload if b"size" in metadata else b""),
    st.sampled_from(ODD),
    st.binary(min_size=2, max_size=2),
)
malformed = st.sampled_from(MALFORMED).map(lambda metadata: metadata + bytes(50))
streams = st.builds(
    lambda frames, last: b"".join(frames) + last,
    st.lists(st.one_of(plain, plain, plain, odd), max_size=12),
    st.one_of(st.just(b""), malformed, st.binary(max_size=8)),
)


class OneByOne(ObjectReader):
    """Reads nothing ahead."""

    def _read_ahead(self):
        return []


def read(reader, chunks):
    """What each chunk brought, and how much was held behind it; the error."""
    *found, error = chunked.read(reader, chunks)
    return found, error and (error.reason, error.message, error.position)


@given(streams, st.lists(st.integers(0, 600), max_size=8))
def test_what_is_read_ahead_is_what_is_there(stream, places):
    chunks = cut(stream, places)
    assert read(ObjectReader(**LIMITS), chunks) == read(OneByOne(**LIMITS), chunks)


ENDS = {"x": frozenset({"x"}), "y": frozenset({"y", "z"})}


@given(st.lists(st.sampled_from([b"w", b"x", b"y", b"z"]), max_size=40), st.integers(0, 40), st.integers(0, 200))
def test_no_batch_holds_an_object_at_which_batches_end(events, change, place):
    """Whatever is read in batches or one by one, and at whatever object other events become those that end batches."""
    stream = b"".join(b'{"event":"%b","id":%d}\0' % (event, number) for number, event in enumerate(events))
    reader = ObjectReader()
    reader.end_batches_at(ENDS["x"])
    ends, numbers = ENDS["x"], []
    for chunk in cut(stream, [place]):
        reader.feed(chunk)
        while True:
            batch = reader.batch()
            taken = list(itertools.islice(batch, 3))
            assert not any(obj.head.event in ends for obj in taken)
            if not taken:
                obj = reader.next_event()
                if obj is None:
                    break
                taken = [obj]
            numbers += [obj.head.id for obj in taken]
            if len(numbers) >= change and ends is ENDS["x"]:
                ends = ENDS["y"]
                reader.end_batches_at(ends)
    assert numbers == list(range(len(events)))


def test_many_objects_in_chunks_of_all_sizes():
    source = random.Random(7)
    frames = [b'{"size":%d,"id":"%d"}\0' % (size, size) + bytes(size) for size in range(0, 600, 3)]
    stream = b"".join(source.choices(frames, k=2 * LONGEST_BATCH))
    places = [source.randrange(len(stream)) for _ in range(200)]
    assert read(ObjectReader(), cut(stream, places)) == read(OneByOne(), cut(stream, places))


def test_a_batch_is_bounded_and_says_how_many_are_left():
    reader = ObjectReader()
    for _ in range(2):
        reader.feed(b"{}\0" * 2000)
        lengths = []
        while left := length_hint(batch := reader.batch()):
            lengths.append(left)
            assert [isinstance(obj, BusObject) for obj in batch] == [True] * left
        assert lengths[:2] == [FIRST_BATCH, 2 * FIRST_BATCH]
        assert max(lengths) == LONGEST_BATCH
        assert sum(lengths) == 2000


def test_next_event_goes_on_after_a_batch():
    reader = ObjectReader()
    reader.feed(b'{"id":1}\0{"id":2}\0{"id":3}\0')
    assert next(reader.batch()).head.id == 1
    assert reader.next_event().head.id == 2
    assert next(reader.batch()).head.id == 3
    assert reader.next_event() is None


def test_what_is_malformed_is_in_no_batch():
    reader = ObjectReader()
    reader.feed(b"{}\0{\0{}\0")
    assert len(list(reader.batch())) == 1
    assert list(reader.batch()) == []
    for _ in range(2):
        with pytest.raises(RemoteProtocolError):
            reader.next_event()
        assert list(reader.batch()) == []


def test_a_limit_that_grows_counts_for_what_was_not_read_yet():
    reader = ObjectReader(max_metadata=20)
    reader.feed(b'{}\0{"x":"%s"}\0' % (b"y" * MAX_ADDED))
    assert reader.next_event() is not None
    reader.expect_server()
    assert reader.next_event() is not None


@each_row("metadata", [*ODD, *MALFORMED])
def test_what_needs_a_closer_look_gets_it(metadata):
    stream = b'{"id":1}\0%b\0%b' % (metadata, bytes(50))
    assert read(ObjectReader(**LIMITS), [stream]) == read(OneByOne(**LIMITS), [stream])
