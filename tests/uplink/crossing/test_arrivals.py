"""Arrivals and outgoing together: an engine in between loses frames, and gives some twice."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.uplink.crossing.arrivals import MOST_IN_PARTS, Arrivals
from bussrv.uplink.crossing.frames import Frame, unpack
from bussrv.uplink.crossing.outgoing import MOST_BYTES, MOST_OBJECTS, Outgoing, Publisher

BOOT = b"12345678"
MOST = 400
SUBJECTS = ["a", "b", "c"]
# Some objects are too large for one frame.
sent = st.lists(st.tuples(st.sampled_from(SUBJECTS), st.integers(0, 2), st.sampled_from([5, 5, 5, 1000])), max_size=60)


def frames_of(objects, flushes):
    """The frames of numbered objects, in the order in which they are sent."""
    outgoing, publishers = Outgoing("hall", BOOT), [Publisher() for _ in range(3)]
    frames = []
    for place, (subject, publisher, size) in enumerate(objects):
        outgoing.add(subject, publishers[publisher], f"{publisher}:{place:06}".encode().ljust(size + 8, b"."))
        if place in flushes:
            frames += outgoing.take(MOST)
    return [*frames, *outgoing.take(MOST)], outgoing


@given(sent, st.sets(st.integers(0, 60)))
def test_a_publisher_is_heard_in_order(objects, flushes):
    frames, outgoing = frames_of(objects, flushes)
    arrivals = Arrivals(2000)
    heard = b"".join(arrivals.take(subject, unpack(data)).body for subject, data, _ in frames)
    texts = heard.decode().replace(".", " ").split()
    for publisher in "012":
        assert [each for each in _split(texts) if each[0] == publisher] == [
            f"{by}:{place:06}" for place, (_, by, _) in enumerate(objects) if str(by) == publisher
        ]
    assert sum(count for _, _, count in frames) == len(objects)
    assert len(outgoing) == outgoing.waiting == 0


def _split(texts):
    """Objects of one frame follow each other without anything between them."""
    return [text[at : at + 8] for text in texts for at in range(0, len(text), 8)]


@given(sent, st.sets(st.integers(0, 60)), st.data())
def test_what_is_lost_is_counted_and_nothing_comes_twice(objects, flushes, data):
    frames, outgoing = frames_of(objects, flushes)
    fates = data.draw(st.lists(st.sampled_from(["once", "once", "twice", "lost"]), min_size=len(frames)))
    arrivals = Arrivals(2000)
    heard, lost, first = [], 0, {}
    for (subject, frame, _), fate in zip(frames, fates, strict=False):
        if fate != "lost":
            first.setdefault(subject, unpack(frame).number)
        for _ in range({"once": 1, "twice": 2, "lost": 0}[fate]):
            taken = arrivals.take(subject, unpack(frame))
            heard.append(taken.body)
            lost += taken.lost
    # At the second beat after it a subject is closed, once: so the end is missed, too.
    for _ in range(3):
        lost += sum(arrivals.take(subject, unpack(frame)).lost for subject, frame in outgoing.closings())
    assert not list(outgoing.closings())
    got = _split(b"".join(heard).decode().replace(".", " ").split())
    assert len(got) == len(set(got))
    numbered = {subject: sum(on == subject for on, _, _ in objects) for subject in SUBJECTS}
    closed = {subject: numbered[subject] + 1 for subject in SUBJECTS if numbered[subject]}
    first = {**closed, **first}
    # What was sent before the first frame that came is none of this server's business.
    assert len(got) + lost == sum(numbered[subject] - number + 1 for subject, number in first.items())


def test_frames_are_no_longer_than_is_good():
    outgoing, publisher = Outgoing("hall", BOOT), Publisher()
    for _ in range(MOST_OBJECTS + 1):
        outgoing.add("small", publisher, b"x")
    for _ in range(3):
        outgoing.add("large", publisher, bytes(MOST_BYTES // 2))
    counts = [(subject, count) for subject, _, count in outgoing.take(1 << 20)]
    assert counts == [("small", MOST_OBJECTS), ("small", 1), ("large", 2), ("large", 1)]


def test_a_server_that_was_away_misses_what_the_bound_removed():
    frames, _ = frames_of([("a", 0, 5)] * 30, set(range(30)))
    before = Arrivals(2000)
    before.continue_at("a", {})
    for subject, data, _ in frames[:10]:
        assert before.take(subject, unpack(data)).lost == 0
    after = Arrivals(2000)
    after.continue_at("a", before.places("a"))
    assert [after.take(subject, unpack(data)).lost for subject, data, _ in frames[8:10] + frames[20:22]] == [
        0,
        0,
        10,
        0,
    ]
    assert after.repeated == 2
    assert Arrivals(2000).take(*(lambda each: (each[0], unpack(each[1])))(frames[5])).lost == 0


def test_a_subject_that_is_not_subscribed_to_is_forgotten():
    frames, _ = frames_of([("a", 0, 5)] * 3, {0, 1, 2})
    arrivals = Arrivals(2000)
    arrivals.take("a", unpack(frames[0][1]))
    arrivals.forget(lambda subject: subject != "a")
    assert arrivals.take("a", unpack(frames[2][1])).lost == 0


def part(origin, number, place, whole, body, boot=BOOT):
    return Frame(origin, boot, number, 1, place, [whole], body)


@pytest.mark.dear
def test_parts_that_never_end_take_no_more_memory_than_said():
    """Of many origins, in tiny parts, and of runs that change: and what one object costs does not grow."""
    arrivals = Arrivals(1 << 20)
    tracemalloc.start()
    try:
        for origin in range(400):
            for place in range(4):
                arrivals.take("s", part(f"o{origin}", 1, place, 1 << 20, bytes(200 << 10)))
        for place in range(100_000):
            arrivals.take("s", part("tiny", 1, place, 1 << 20, b"x"))
        for run in range(1000):
            arrivals.take("s", part("runs", 1, 0, 1 << 20, bytes(200 << 10), boot=run.to_bytes(8, "big")))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Buffers that grow have some room.
    assert held < 1.3 * MOST_IN_PARTS
    assert b"".join(arrivals.take("t", part("b", 1, place, 4, b"xy")).body for place in range(2)) == b"xyxy"


def test_many_subjects_and_origins_are_forgotten_at_the_bound(monkeypatch):
    monkeypatch.setattr("bussrv.uplink.crossing.arrivals.MOST_REMEMBERED", 50)
    monkeypatch.setattr("bussrv.uplink.crossing.arrivals.MOST_ORIGINS", 20)
    arrivals = Arrivals(2000)
    arrivals.continue_at("kept", {"hall": (BOOT.hex(), 5)})
    for number in range(200):
        arrivals.take(f"s{number}", Frame("hall", BOOT, 7, 1, None, [1], b"x"))
    assert arrivals.take("kept", Frame("hall", BOOT, 7, 1, None, [1], b"x")).lost == 2
    for number in range(200):
        arrivals.take("kept", Frame(f"o{number}", BOOT, 1, 1, None, [1], b"x"))
        assert len(arrivals.places("kept")) <= 20
    assert arrivals.take("kept", Frame("hall", BOOT, 9, 1, None, [1], b"x")).lost == 0


def test_beyond_many_subjects_numbers_begin_again(monkeypatch):
    monkeypatch.setattr("bussrv.uplink.crossing.outgoing.MOST_SUBJECTS", 5)
    outgoing, publisher, arrivals = Outgoing("hall", BOOT), Publisher(), Arrivals(2000)
    heard = []
    for number in range(60):
        outgoing.add(f"s{number % 7}", publisher, b"%d " % number)
        for subject, data, _ in outgoing.take(MOST):
            taken = arrivals.take(subject, unpack(data))
            heard += taken.body.split()
            assert taken.lost == 0
        for subject, data in outgoing.closings():
            assert arrivals.take(subject, unpack(data)).lost == 0
    assert list(map(int, heard)) == list(range(60))
