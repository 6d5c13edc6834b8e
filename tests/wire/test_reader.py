"""The buffer under every reader, held against plain bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.errors import RemoteProtocolError
from bussrv.wire.reader import ReceiveBuffer, decode_text
from tests.tables import each_row

steps = st.lists(
    st.one_of(
        st.tuples(st.just("feed"), st.binary(max_size=20)),
        st.tuples(st.sampled_from(["take", "skip", "peek"]), st.integers(0, 30)),
        st.tuples(st.just("find"), st.tuples(st.integers(0, 255), st.integers(0, 30))),
    ),
    max_size=40,
)


@given(steps)
def test_behaves_as_plain_bytes_do(steps):
    buffer, model = ReceiveBuffer(), b""
    for step, argument in steps:
        if step == "feed":
            buffer.feed(argument)
            model += argument
        elif step == "peek":
            assert buffer.peek(argument) == model[:argument]
        elif step == "find":
            byte, limit = bytes([argument[0]]), argument[1]
            assert buffer.find(byte, limit) == model[:limit].find(byte)
        else:
            size = min(argument, len(model))
            if step == "take":
                assert buffer.take(size) == model[:size]
            else:
                buffer.skip(size)
            model = model[size:]
        assert len(buffer) == len(model)
    assert buffer.peek(len(model) + 1) == model


few = st.text("ab", min_size=1, max_size=4).map(str.encode)


@given(few, st.lists(st.tuples(few, st.sampled_from([*[0] * 9, 1, 2, 31])), max_size=20), st.integers(1, 60))
def test_a_search_goes_on_where_the_last_one_ended(searched, pieces, limit):
    """Pieces that are smaller than what waits gather in one place, where nothing is searched twice."""
    buffer, model = ReceiveBuffer(), b"c" * 30
    buffer.feed(model)
    for piece, skipped in pieces:
        buffer.feed(piece)
        model += piece
        buffer.skip(min(skipped, len(model)))
        model = model[skipped:]
        for most in (limit, 100):
            assert buffer.find(searched, most) == model[:most].find(searched)


def test_starts_empty():
    buffer = ReceiveBuffer()
    assert len(buffer) == 0
    assert buffer.peek(1) == b""
    assert buffer.find(b"a", 10) == -1


@each_row(("limit", "found"), [(0, -1), (2, -1), (3, 2), (100, 2)])
def test_find_looks_no_further_than_its_limit(limit, found):
    buffer = ReceiveBuffer()
    buffer.feed(b"--ab!")
    buffer.skip(1)
    buffer.feed(b"!")
    assert buffer.find(b"b", limit) == found


def test_find_counts_from_what_waits():
    buffer = ReceiveBuffer()
    buffer.feed(b"a-a")
    buffer.skip(1)
    assert buffer.find(b"a", 10) == 1


def test_what_was_given_out_does_not_change():
    buffer = ReceiveBuffer()
    buffer.feed(b"abcdef")
    peeked, taken = buffer.peek(3), buffer.take(3)
    buffer.feed(b"ghi")
    assert (peeked, taken, buffer.take(6)) == (b"abc", b"abc", b"defghi")
    assert type(peeked) is type(taken) is bytes


def test_what_was_taken_is_not_kept():
    buffer = ReceiveBuffer()
    for _ in range(100):
        buffer.feed(bytes(1000))
        buffer.take(1000)
    buffer.feed(b"")
    assert len(buffer._data) == 0


@given(st.lists(few), st.integers(0, 6), st.sampled_from([(b"a",), (b"ab",), (b"aa", b"b"), (b"bbb", b"ab")]))
def test_what_comes_before_an_end_is_taken_once_it_is_there(pieces, most, ends):
    buffer, whole, taken, told = ReceiveBuffer(), b"", [], []
    for piece in pieces:
        buffer.feed(piece)
        whole += piece
        try:
            while (found := buffer.take_until(ends[0], most, *ends[1:])) is not None:
                taken.append(found)
        except RemoteProtocolError as error:
            told.append(error.reason)
            break
    assert told in ([], ["packet-too-large"])
    if told:
        assert len(buffer) >= most + len(ends[0])
        assert all(buffer.find(each, most + len(each)) < 0 for each in ends)
    assert all(len(each) <= most and not any(end in each for end in ends) for each in taken)
    rest, place = buffer.peek(len(buffer)), 0
    for each in taken:
        assert whole.startswith(each, place)
        place += len(each) + next(len(end) for end in ends if whole.startswith(end, place + len(each)))
    assert whole[place:] == rest


def test_text_that_is_none_is_an_error_that_names_it():
    assert decode_text("ü".encode(), "a name") == "ü"
    with pytest.raises(RemoteProtocolError, match=r"a name is not UTF-8: .* at byte 1") as caught:
        decode_text(b"a\xff", "a name")
    assert caught.value.reason == "bad-utf8"
