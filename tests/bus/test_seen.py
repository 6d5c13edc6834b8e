"""Which objects came over a link already."""

from hypothesis import given
from hypothesis import strategies as st

from bussrv.bus.seen import Seen, origin_of
from bussrv.wire.objects import BusObject, Head
from tests.tables import each_row

OBJECTS = st.tuples(st.sampled_from(["ann", "bob"]), st.integers(0, 5) | st.sampled_from(["0", "1", True]))


def key(sender, object_id):
    return sender, type(object_id), object_id


def test_an_object_is_new_once():
    seen = Seen(10)
    assert [seen.add(origin_of(["ann"]), "1") for _ in range(3)] == [True, False, False]
    assert len(seen) == 1


def test_the_same_id_of_another_sender_is_another_object():
    seen = Seen(10)
    assert seen.add(origin_of(["ann"]), 1)
    assert seen.add(origin_of(["bob"]), 1)
    assert len(seen) == 2


def test_who_sent_it_and_its_id_are_not_run_together():
    seen = Seen(10)
    assert seen.add(origin_of(["ann1"]), "2")
    assert seen.add(origin_of(["ann"]), "12")


@each_row("other", [True, 1.0, "1"])
def test_ids_of_another_kind_are_others(other):
    seen = Seen(10)
    assert seen.add(origin_of(["ann"]), 1)
    assert seen.add(origin_of(["ann"]), other)
    assert not seen.add(origin_of(["ann"]), 1)
    assert not seen.add(origin_of(["ann"]), other)
    assert len(seen) == 2


def test_the_oldest_are_forgotten_first():
    seen = Seen(3)
    for number in range(4):
        assert seen.add(origin_of(["ann"]), number)
    assert len(seen) == 3
    assert [seen.add(origin_of(["ann"]), number) for number in (1, 2, 3)] == [False] * 3
    assert seen.add(origin_of(["ann"]), 0)
    assert seen.add(origin_of(["ann"]), 1)
    assert not seen.add(origin_of(["ann"]), 3)


def test_coming_again_does_not_make_an_object_newer():
    seen = Seen(2)
    assert seen.add(origin_of(["ann"]), 1)
    assert seen.add(origin_of(["ann"]), 2)
    assert not seen.add(origin_of(["ann"]), 1)
    assert seen.add(origin_of(["ann"]), 3)
    assert seen.add(origin_of(["ann"]), 1)


@given(st.integers(1, 4), st.lists(OBJECTS, max_size=30))
def test_it_remembers_just_the_newest(capacity, objects):
    seen, newest = Seen(capacity), []
    for sender, object_id in objects:
        is_new = key(sender, object_id) not in newest
        assert seen.add(origin_of([sender]), object_id) == is_new
        if is_new:
            newest = [*newest, key(sender, object_id)][-capacity:]
        assert len(seen) == len(newest)


@given(st.integers(1, 4), st.lists(st.lists(OBJECTS, min_size=1, max_size=6), max_size=8))
def test_many_at_a_time_are_the_same_as_one_by_one(capacity, runs):
    one_by_one, together = Seen(capacity), Seen(capacity)
    for run in runs:
        sender = origin_of([run[0][0]])
        objs = [BusObject(b"", Head(id=object_id)) for _, object_id in run]
        expected = [obj for obj in objs if one_by_one.add(sender, obj.head.id)]
        found = together.new_of(sender, objs)
        assert [id(obj) for obj in found] == [id(obj) for obj in expected]
        assert (together._known, together._order) == (one_by_one._known, one_by_one._order)
