"""The registry at every moment is what the records up to it say, folded by hand."""

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.errors import JournalError
from bussrv.events import Event
from bussrv.inspection.difference import Difference, difference, encode, lines
from bussrv.inspection.history import END, Moment, parse_moment, snapshots
from bussrv.journal.record import Record, parse_time
from bussrv.registry.snapshot import Snapshot, snapshot
from bussrv.registry.state import RegistryState
from tests.inspection.test_reading import numbered, write
from tests.registry.test_state import histories

STEP = 1_000_000


def journal(directory: Path, events: Sequence[Event], times: Sequence[int] | None = None) -> list[Record]:
    """A journal of two segments; by default record ``n`` is of second ``n``."""
    times = times or [seq * STEP for seq in range(1, len(events) + 1)]
    found = [
        Record(seq, time, seq, "hall", "boot", event)
        for seq, (time, event) in enumerate(zip(times, events, strict=True), start=1)
    ]
    write(directory, *(part for part in (found[: len(found) // 2], found[len(found) // 2 :]) if part))
    return found


def folds(records: Sequence[Record]) -> list[Snapshot]:
    """The registry behind each record; the first one is before them all."""
    state = RegistryState()
    found = [snapshot(0, state)]
    for each in records:
        state.apply(each.event, each.time)
        found.append(snapshot(each.seq, state))
    return found


@settings(max_examples=50)
@given(histories.filter(len))
def test_the_state_at_every_record(events: list[Event]) -> None:
    with TemporaryDirectory() as name:
        wanted = folds(journal(Path(name), events))
        assert snapshots(Path(name), [Moment(seq=seq) for seq in range(len(wanted))]) == wanted
        assert snapshots(Path(name), [END]) == [wanted[-1]]
        for seq in {1, len(events) // 2, len(events)}:
            assert snapshots(Path(name), [Moment(seq=seq)]) == [wanted[seq]]


@settings(max_examples=50)
@given(histories.filter(len), st.data())
def test_the_state_at_a_time_is_before_the_first_record_that_is_later(events: list[Event], data: st.DataObject) -> None:
    times = data.draw(st.lists(st.integers(1, 9), min_size=len(events), max_size=len(events)))
    with TemporaryDirectory() as name:
        wanted = folds(journal(Path(name), events, times))
        for time in range(11):
            until = next((index for index, each in enumerate(times) if each > time), len(times))
            assert snapshots(Path(name), [Moment(time=time)]) == [wanted[until]]


def applied(before: Snapshot, found: Difference) -> tuple[set[str], set[tuple[str, str]], dict[object, object]]:
    """The ids of sessions, the services, and the subscriptions that a difference leads to."""
    sessions = {each.id for each in before.sessions} - {each.id for each in found.sessions.went}
    services = {(name, each) for name, providers in before.services.items() for each in providers}
    services -= {(each.service, each.session) for each in found.services.went}
    subscriptions = {(each.session, each.service): (each.interest, each.options) for each in before.subscriptions}
    for each in found.subscriptions.went:
        del subscriptions[each.session, each.service]
    for each in (*found.subscriptions.came, *(change.after for change in found.subscriptions.changed)):
        subscriptions[each.session, each.service] = (each.interest, each.options)
    return (
        sessions | {each.id for each in found.sessions.came},
        services | {(each.service, each.session) for each in found.services.came},
        subscriptions,
    )


@given(histories, st.data())
def test_a_difference_leads_from_one_moment_to_the_other(events: list[Event], data: st.DataObject) -> None:
    every = folds([Record(seq, seq, seq, "hall", "boot", event) for seq, event in enumerate(events, start=1)])
    before, after = data.draw(st.sampled_from(every)), data.draw(st.sampled_from(every))
    found = difference(before, after)
    assert applied(before, found) == applied(after, difference(after, after))
    if before.sessions == after.sessions:
        assert not found.sessions
    assert not difference(after, after)
    assert json.loads(encode(found))["after"] == after.seq
    said = list(lines(found))
    changes = (found.sessions, found.services, found.subscriptions)
    assert len(said) == 1 + sum(len(each.came) + len(each.went) + len(each.changed) for each in changes)
    assert bool(found) == (len(said) > 1)


def test_moments_that_a_person_names() -> None:
    assert parse_moment("0") == Moment(seq=0)
    assert parse_moment("2026-11-21T14:02:03Z") == Moment(time=parse_time("2026-11-21T14:02:03.000000Z"))
    assert parse_moment("2026-11-21T14:02:03.5Z") == Moment(time=parse_time("2026-11-21T14:02:03.500000Z"))


@pytest.mark.parametrize("text", ["", "-1", "x", "2026-11-21", "2026-11-21T14:02:03", "2026-13-21T14:02:03Z", "٣"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="neither the number of a record nor a time such as 2026-11-21T14:02:03Z"):
        parse_moment(text)


def test_beyond_the_end(tmp_path: Path) -> None:
    write(tmp_path, numbered(1, 3))
    with pytest.raises(JournalError, match="ends with record 3, before record 4"):
        snapshots(tmp_path, [Moment(seq=4)])
    assert snapshots(tmp_path, [Moment(time=99 * STEP)])[0].seq == 3


@pytest.mark.parametrize("moment", [Moment(seq=0), Moment(seq=3), Moment(time=3 * STEP)])
def test_before_the_beginning_of_a_journal_whose_old_segments_were_moved_away(tmp_path: Path, moment: Moment) -> None:
    write(tmp_path, numbered(4, 5))
    with pytest.raises(JournalError, match=r"begins with record 4 of 1970-01-01T00:00:04.000000Z; .* is before that"):
        snapshots(tmp_path, [moment])
    assert snapshots(tmp_path, [Moment(seq=4)])[0].seq == 4


def test_damage_behind_the_moment_does_not_matter(tmp_path: Path) -> None:
    (path,) = write(tmp_path, numbered(1, 3))
    with path.open("ab") as file:
        file.write(b"junk\n")
    assert snapshots(tmp_path, [Moment(seq=3)])[0].seq == 3
    with pytest.raises(JournalError, match="line 4"):
        snapshots(tmp_path, [END])
