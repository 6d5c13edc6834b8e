"""Which objects came over a link already."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.bus.routing.seen import CompiledSeen, Seen, newest, origin_of
from bussrv.compiled import SPEEDUPS
from bussrv.wire.objects import BusObject, Head
from tests.tables import each_row

KINDS = [Seen] if SPEEDUPS is None else [Seen, CompiledSeen]
both = pytest.mark.parametrize("kind", KINDS)

OBJECTS = st.tuples(st.sampled_from(["ann", "bob"]), st.integers(0, 5) | st.sampled_from(["0", "1", True]))


def key(sender, object_id):
    return sender, type(object_id), object_id


@both
def test_an_object_is_new_once(kind):
    seen = kind(10)
    assert [seen.add(origin_of(["ann"]), "1") for _ in range(3)] == [True, False, False]
    assert len(seen) == 1


@both
def test_the_same_id_of_another_sender_is_another_object(kind):
    seen = kind(10)
    assert seen.add(origin_of(["ann"]), 1)
    assert seen.add(origin_of(["bob"]), 1)
    assert len(seen) == 2


@both
def test_who_sent_it_and_its_id_are_not_run_together(kind):
    seen = kind(10)
    assert seen.add(origin_of(["ann1"]), "2")
    assert seen.add(origin_of(["ann"]), "12")


@both
@each_row("other", [True, 1.0, "1", 1e300])
def test_ids_of_another_kind_are_others(kind, other):
    seen = kind(10)
    assert seen.add(origin_of(["ann"]), 1)
    assert seen.add(origin_of(["ann"]), other)
    assert not seen.add(origin_of(["ann"]), 1)
    assert not seen.add(origin_of(["ann"]), other)
    assert len(seen) == 2


@both
def test_the_oldest_are_forgotten_first(kind):
    seen = kind(3)
    for number in range(4):
        assert seen.add(origin_of(["ann"]), number)
    assert len(seen) == 3
    assert [seen.add(origin_of(["ann"]), number) for number in (1, 2, 3)] == [False] * 3
    assert seen.add(origin_of(["ann"]), 0)
    assert seen.add(origin_of(["ann"]), 1)
    assert not seen.add(origin_of(["ann"]), 3)


@both
def test_coming_again_does_not_make_an_object_newer(kind):
    seen = kind(2)
    assert seen.add(origin_of(["ann"]), 1)
    assert seen.add(origin_of(["ann"]), 2)
    assert not seen.add(origin_of(["ann"]), 1)
    assert seen.add(origin_of(["ann"]), 3)
    assert seen.add(origin_of(["ann"]), 1)


@given(kind=st.sampled_from(KINDS), capacity=st.integers(1, 4), objects=st.lists(OBJECTS, max_size=30))
def test_it_remembers_just_the_newest(kind, capacity, objects):
    seen, latest = kind(capacity), []
    for sender, object_id in objects:
        is_new = key(sender, object_id) not in latest
        assert seen.add(origin_of([sender]), object_id) == is_new
        if is_new:
            latest = [*latest, key(sender, object_id)][-capacity:]
        assert len(seen) == len(latest)


@given(
    kind=st.sampled_from(KINDS),
    capacity=st.integers(1, 4),
    runs=st.lists(st.lists(OBJECTS, min_size=1, max_size=6), max_size=8),
)
def test_many_at_a_time_are_the_same_as_one_by_one(kind, capacity, runs):
    one_by_one, together = kind(capacity), kind(capacity)
    for run in runs:
        sender = origin_of([run[0][0]])
        objs = [BusObject(b"", Head(id=object_id)) for _, object_id in run]
        expected = [obj for obj in objs if one_by_one.add(sender, obj.head.id)]
        found = together.new_of(sender, objs)
        assert [id(obj) for obj in found] == [id(obj) for obj in expected]
        assert len(together) == len(one_by_one)


@pytest.mark.skipif(SPEEDUPS is None, reason="the compiled module is not there, or is switched off")
def test_the_compiled_module_remembers_the_same():
    """Its table grows, keys of it move when others are forgotten, and the capacity changes."""
    source = Random(7)
    plain, compiled = Seen(3000), newest(3000)
    for number in range(30_000):
        if not number % 3000:
            plain.capacity = compiled.capacity = source.choice((0, 1, 700, 1024, 3000, 5000))
        chosen = source.randrange(number // 4, number // 4 + 6000)
        object_id = str(chosen) * source.choice((1, 1, 3)) if chosen % 2 else chosen - 9000
        assert plain.add(chosen % 3, object_id) == compiled.add(chosen % 3, object_id)
        assert (len(plain), plain.capacity) == (len(compiled), compiled.capacity)
