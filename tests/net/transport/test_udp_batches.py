"""Datagrams that go in one call: which go together, and that a system is asked whether it can."""

import socket
from itertools import zip_longest

from hypothesis import given
from hypothesis import strategies as st

from bussrv.net.transport import udp_batches as module
from bussrv.net.transport.udp_batches import MOST_BYTES, MOST_SEGMENTS, UdpBatch, can_segment, udp_batches
from tests.tables import each_row

sizes = st.one_of(st.integers(1, 4), st.sampled_from([100, 20_000, 30_000, MOST_BYTES, MOST_BYTES + 1]))


def cut(*lengths: int) -> list[list[int]]:
    return [[len(frame) for frame in batch.frames] for batch in udp_batches([b"x" * length for length in lengths])]


def said_size(batch: UdpBatch) -> int:
    """The size of its segments, as the system is told it."""
    ((level, kind, data),) = batch.ancillary
    assert (level, kind) == (17, 103)
    return int.from_bytes(data, "little")


def may_go(batch: list[bytes]) -> bool:
    """What Linux takes in one piece."""
    first, *rest = [len(frame) for frame in batch]
    alike = all(length == first for length in rest[:-1]) and all(length <= first for length in rest)
    return not rest or (alike and len(batch) <= MOST_SEGMENTS and sum(map(len, batch)) <= MOST_BYTES)


@given(st.lists(st.tuples(sizes, st.sampled_from([1, 1, 1, 2, 40])), max_size=20))
def test_frames_go_in_order_in_batches_as_long_as_possible(drawn: list[tuple[int, int]]) -> None:
    lengths = [length for length, times in drawn for _ in range(times)]
    frames = [b"%d:" % number + b"x" * length for number, length in enumerate(lengths)]
    found = list(udp_batches(frames))
    assert [frame for batch in found for frame in batch.frames] == frames
    for batch, following in zip_longest(found, found[1:]):
        assert may_go(list(batch.frames))
        assert batch.joined == b"".join(batch.frames)
        if len(batch.frames) > 1:
            assert said_size(batch) == len(batch.frames[0])
        else:
            assert not batch.ancillary
        assert following is None or not may_go([*batch.frames, following.frames[0]])


def test_like_frames_go_together_and_a_shorter_one_ends_a_batch() -> None:
    assert cut(5, 5, 5) == [[5, 5, 5]]
    assert cut(5, 5, 4, 4, 5) == [[5, 5, 4], [4], [5]]
    assert cut(3, 4, 5) == [[3], [4], [5]]
    assert cut(*[5] * 70) == [[5] * 32, [5] * 32, [5] * 6]
    assert cut() == []


class Old(socket.socket):
    """A socket of a system that has never heard of segments."""

    def getsockopt(self, *_: object) -> int:  # type: ignore[override]
        raise OSError(92, "Protocol not available")


def test_a_system_that_knows_of_no_segments_is_not_sent_any() -> None:
    with Old(socket.AF_INET, socket.SOCK_DGRAM) as old:
        assert not can_segment(old)


@each_row("family", [socket.AF_INET, socket.AF_INET6])
def test_whether_a_system_segments_is_what_it_says(family: socket.AddressFamily) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as handle:
        try:
            handle.setsockopt(socket.IPPROTO_UDP, module._UDP_SEGMENT, 100)
        except OSError:
            assert not can_segment(handle)
        else:
            assert can_segment(handle)
