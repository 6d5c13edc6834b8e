"""What waits for a slow client: in order, shared with others, and counted while it is held."""

import gc
from collections import Counter, deque
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.formats.spp.protocol import NewestStates
from bussrv.memory.bundle import Bundle
from bussrv.memory.limits import MemoryLimit
from bussrv.net.session.backlog import BLOCK, MOST_PIECES, Backlog
from bussrv.values import Traffic
from bussrv.wire import spp

sizes = st.lists(st.integers(1, 50), min_size=1, max_size=4)
steps = st.lists(st.one_of(sizes, st.integers(1, 60)), max_size=30)


def bundle(sizes: list[int], number: int) -> Bundle:
    return Bundle([bytes([number]) * size for size in sizes])


@given(steps, st.integers(0, 10))
def test_what_is_sent_is_what_was_put_whole_and_in_order(history: list[list[int] | int], already: int) -> None:
    later: list[Iterator[None]] = []
    holdings = MemoryLimit(1 << 20, later.append)
    backlog = Backlog()
    backlog.holding = holdings.open("a", backlog.clear)
    added, put, sent = None, b"", b""
    for number, step in enumerate(history):
        if isinstance(step, int):
            data = b"".join(backlog.pieces(step))
            assert data == put[len(sent) : len(sent) + step]
            taken = len(data) - number % 2 if data else 0
            backlog.sent(taken)
            sent += data[:taken]
        else:
            added = bundle(step, number)
            put += added.joined
            if backlog:
                backlog.put(added)
            else:
                before = min(already, added.size - 1)
                backlog.begin(added, before)
                sent += added.joined[:before]
        assert (backlog.size, bool(backlog)) == (len(put) - len(sent), len(put) > len(sent))
        added = None
        assert bool(holdings.total) == bool(backlog)
    backlog.clear()
    for work in later:
        deque(work, 0)
    assert (backlog.size, len(backlog), backlog.pieces(10), holdings.total) == (0, 0, [], 0)


def test_a_chunk_is_never_copied() -> None:
    shared = bundle([100_000], 1)
    first, second = Backlog(), Backlog()
    for backlog, sent in ((first, 10), (second, 99_000)):
        backlog.begin(shared, sent)
        (piece,) = backlog.pieces(1000)
        assert isinstance(piece, memoryview)
        assert piece.obj is shared.joined


@pytest.mark.dear
@pytest.mark.parametrize("newest", [False, True])
def test_giving_up_takes_few_steps_and_collects_few_objects(newest: bool) -> None:
    later: list[Iterator[None]] = []
    holdings = MemoryLimit(1 << 30, later.append)
    backlog = NewestStates(lambda _: True, Counter(), Traffic()) if newest else Backlog()
    backlog.holding = holdings.open("a", backlog.clear)
    count = 100 * BLOCK
    for number in range(count):
        backlog.put(Bundle([spp.info(str(number), b"x")]))
    held = holdings.total
    if not newest:
        gc.collect()
        assert sum(map(len, map(gc.get_referents, gc.get_referents(backlog._chunks)))) < count / 10
    backlog.clear()
    assert (len(backlog), backlog.holding.size, len(later)) == (0, 0, 1)
    assert holdings.total > held / 2
    assert sum(1 for _ in later[0]) >= count / BLOCK
    assert holdings.total == 0


def test_frames_without_bytes_do_not_wait() -> None:
    """Or the holding of a session that has left would be remembered."""
    holdings = MemoryLimit(1 << 20, deque)
    backlog = Backlog()
    backlog.holding = holdings.open("a", backlog.clear)
    backlog.put(Bundle([]))
    backlog.put(Bundle([b""]))
    assert (len(backlog), holdings.total, holdings._by_address) == (0, 0, {})


def test_many_small_chunks_go_together() -> None:
    backlog = Backlog()
    for number in range(2 * MOST_PIECES):
        backlog.put(bundle([1], number % 256))
    assert len(backlog.pieces(1 << 20)) == MOST_PIECES


@given(st.lists(sizes, min_size=1, max_size=5), st.integers(0, 300))
def test_what_was_begun_is_finished_when_the_rest_is_forgotten(history: list[list[int]], size: int) -> None:
    """Later words begin where a chunk ended."""
    backlog = Backlog()
    bundles = [bundle(each, number) for number, each in enumerate(history)]
    backlog.begin(bundles[0])
    for each in bundles[1:]:
        backlog.put(each)
    chunks = [each.joined for each in bundles]
    sent = b"".join(chunks)[:size]
    backlog.sent(len(sent))
    backlog.keep_begun()
    backlog.put(bundle([3], 255))
    read = sent + b"".join(backlog.pieces(1 << 20))
    ends = [b"".join(chunks[:number]) for number in range(len(chunks) + 1)]
    begun = next(each for each in ends[size == 0 :] if len(each) >= len(sent))
    assert read == begun + b"\xff" * 3
    assert backlog.size == len(read) - len(sent)
