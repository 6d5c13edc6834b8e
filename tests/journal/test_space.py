"""The journal leaves room on its volume: changes are refused in time, facts go on being written."""

import pytest
from twisted.internet.defer import Deferred

from bussrv import events as ev
from bussrv.errors import JournalUnavailable
from bussrv.journal.batch import NoRoom, make_entry
from bussrv.journal.space import MIN_FREE, Space
from bussrv.journal.verify import verify
from tests.journal.support import Disk, FakeClock, every_record, stamp, writer


class Volume(Disk):
    """As large as the test says, and as full."""

    size = 1000 * MIN_FREE

    def __init__(self, free):
        super().__init__()
        self.room = free

    def free(self, directory):
        self._call("free")
        return self.room, self.size


def asked(name):
    done = Deferred()
    done.addErrback(lambda failure: failure.trap(JournalUnavailable))
    return make_entry([stamp(ev.ServiceRegistered(session="s", service=name), CLOCK)], done)


def fact(name):
    return make_entry([stamp(ev.AuthSucceeded(actor=name), CLOCK)])


CLOCK = FakeClock()


def batches(directory, volume, min_free=1600):
    return writer(directory, clock=CLOCK, files=volume, space=Space(directory, min_free, CLOCK, volume))


def names(directory):
    told = [each.event for each in every_record(directory)]
    return [getattr(event, "service", None) or getattr(event, "actor", None) or ev.event_name(event) for event in told]


def test_below_the_limit_changes_are_refused_and_facts_written(tmp_path):
    volume = Volume(2000)
    journal = batches(tmp_path, volume)
    journal.commit([asked("a")])
    volume.room = 1599
    CLOCK.advance(1)
    with pytest.raises(NoRoom, match=r"^1\.6 kB free on the disk of .*, but 1\.6 kB have to stay free"):
        journal.commit([fact("b"), asked("c"), fact("d"), asked("e")])
    assert (journal.degraded, journal.is_failing) == (True, False)
    journal.commit([fact("f")])
    assert names(tmp_path) == ["a", "journal.degraded", "b", "d", "f"]
    # Not at once when there is a byte more: it would go on and off.
    volume.room = 1600
    CLOCK.advance(1)
    with pytest.raises(NoRoom):
        journal.commit([asked("g")])
    volume.room = 1700
    CLOCK.advance(1)
    journal.commit([])
    assert not journal.degraded
    journal.commit([asked("h")])
    assert names(tmp_path)[5:] == ["journal.restored", "h"]
    (restored,) = [each.event for each in every_record(tmp_path) if isinstance(each.event, ev.JournalRestored)]
    assert restored.refused == 3
    journal.close()
    assert verify(tmp_path).faults == []


def test_below_half_of_it_facts_are_kept_and_written_later(tmp_path):
    volume = Volume(2000)
    journal = batches(tmp_path, volume)
    journal.commit([asked("a")])
    volume.room = 799
    CLOCK.advance(1)
    with pytest.raises(NoRoom):
        journal.commit([fact("b"), asked("c")])
    with pytest.raises(NoRoom):
        journal.commit([fact("d")])
    assert journal.is_failing
    assert names(tmp_path) == ["a"]
    volume.room = 801
    CLOCK.advance(1)
    journal.commit([fact("e")])
    assert names(tmp_path) == ["a", "journal.degraded", "b", "d", "e"]
    volume.room = 2000
    CLOCK.advance(1)
    journal.commit([asked("f")])
    assert names(tmp_path)[5:] == ["journal.restored", "f"]
    journal.close()
    assert verify(tmp_path).faults == []


def test_it_is_looked_once_a_second_or_when_much_was_written(tmp_path):
    volume = Volume(10**9)
    space = Space(tmp_path, 1600, CLOCK, volume)
    for _ in range(50):
        assert space.shortage() is None
        space.wrote(1)
    assert volume.calls["free"] == 1
    CLOCK.advance(1)
    space.shortage()
    assert volume.calls["free"] == 2
    space.wrote(101)
    space.shortage()
    assert volume.calls["free"] == 3


@pytest.mark.parametrize(("size", "kept"), [(1000 * MIN_FREE, MIN_FREE), (10 * MIN_FREE, MIN_FREE // 2)])
def test_by_default_a_gibibyte_or_a_twentieth_stays_free(tmp_path, size, kept):
    volume = Volume(kept + 5)
    volume.size = size
    space = Space(tmp_path, None, CLOCK, volume)
    assert space.shortage() is None
    assert space.usable == 5
    volume.room = kept - 1
    CLOCK.advance(1)
    assert space.shortage() is not None


def test_where_nobody_knows_what_is_free_it_is_written(tmp_path):
    volume = Volume(0)
    volume.failing = {"free"}
    space = Space(tmp_path, 1600, CLOCK, volume)
    assert space.shortage() is None
    assert space.usable is None
