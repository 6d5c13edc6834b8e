"""The registry at every moment is what the records up to it say, folded by hand."""

import itertools
import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.json import encode

from bussrv.errors import JournalError
from bussrv.events import Event
from bussrv.inspection.difference import Difference, difference, lines
from bussrv.journal import record
from bussrv.journal.batch import Rotation
from bussrv.journal.evidence.lines import decode_record
from bussrv.journal.moments import END, Moment, parse_moment
from bussrv.journal.reading import read_header
from bussrv.journal.record import Record, parse_time
from bussrv.journal.segment import first_seq, list_segments
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.registry.state import snapshot as snapshot_module
from bussrv.registry.state.history import snapshots
from bussrv.registry.state.session import Session
from bussrv.registry.state.snapshot import Snapshot, encoded_pieces, snapshot
from bussrv.registry.state.state import RegistryState
from tests.inspection.journals import House, small_snapshots
from tests.inspection.test_reading import numbered, write
from tests.registry.state.test_state import histories
from tests.size import sized
from tests.tables import each_row

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


def is_complete(event: Event) -> bool:
    """Whether an event says all that the judge of a journal asks for."""
    try:
        decode_record(record.encode(Record(1, 1, 1, "hall", "boot", event)))
    except JournalError:
        return False
    return True


complete = histories.map(lambda events: [each for each in events if is_complete(each)])


@settings(max_examples=sized(50))
@given(complete.filter(len))
def test_the_state_at_every_record(events: list[Event]) -> None:
    with TemporaryDirectory() as name:
        wanted = folds(journal(Path(name), events))
        assert snapshots(Path(name), [Moment(seq=seq) for seq in range(len(wanted))]) == wanted
        assert snapshots(Path(name), [END]) == [wanted[-1]]
        for seq in {1, len(events) // 2, len(events)}:
            assert snapshots(Path(name), [Moment(seq=seq)]) == [wanted[seq]]


@settings(max_examples=sized(50))
@given(complete.filter(len), st.data())
def test_the_state_at_a_time_is_before_the_first_later_record(events: list[Event], data: st.DataObject) -> None:
    times = data.draw(st.lists(st.integers(1, 9), min_size=len(events), max_size=len(events)))
    with TemporaryDirectory() as name:
        wanted = folds(journal(Path(name), events, times))
        for time in range(11):
            half = len(times) // 2
            since = half if max(times[0], times[half]) <= time else 0
            until = next((index for index in range(since, len(times)) if times[index] > time), len(times))
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


@given(complete, st.data())
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


@each_row("text", ["", "-1", "x", "2026-11-21", "2026-11-21T14:02:03", "2026-13-21T14:02:03Z", "٣"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="neither the number of a record nor a time such as 2026-11-21T14:02:03Z"):
        parse_moment(text)


def test_beyond_the_end(tmp_path: Path) -> None:
    write(tmp_path, numbered(1, 3))
    with pytest.raises(JournalError, match="ends with record 3, before record 4"):
        snapshots(tmp_path, [Moment(seq=4)])
    assert snapshots(tmp_path, [Moment(time=99 * STEP)])[0].seq == 3


@pytest.mark.parametrize("moment", [Moment(seq=0), Moment(seq=2), Moment(time=3 * STEP)])
def test_before_the_beginning_of_a_journal_without_old_segments(tmp_path: Path, moment: Moment) -> None:
    write(tmp_path, numbered(4, 5))
    with pytest.raises(JournalError, match=r"begins with record 4, at 1970-01-01T00:00:04.000000Z; .* is before that"):
        snapshots(tmp_path, [moment])
    for moment, seq in ((Moment(seq=3), 3), (Moment(time=4 * STEP), 4), (Moment(seq=4), 4)):
        assert snapshots(tmp_path, [moment])[0].seq == seq


def test_damage_behind_the_moment_does_not_matter(tmp_path: Path) -> None:
    (path,) = write(tmp_path, numbered(1, 3))
    with path.open("ab") as file:
        file.write(b"junk\n")
    assert snapshots(tmp_path, [Moment(seq=3)])[0].seq == 3
    with pytest.raises(JournalError, match="line 5"):
        snapshots(tmp_path, [END])


# A journal of many boots and segments, some of them compressed; the clock is set back now and then.

SECOND = 1_000_000


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> House:
    house = House(
        tmp_path_factory.mktemp("long") / "journal",
        policy=UpkeepPolicy(compress=True),
        rotation=Rotation(bytes=40_000, age=1e6),
        remembers=True,
        seed=3,
    )
    choose = random.Random(5)
    with small_snapshots(1000):
        for boot in range(8):
            house.boot()
            house.go_on(380, batch=4)
            if boot % 3 == 0:
                house.crash()
            else:
                house.stop()
            if boot % 2:
                house.clock.now_utc -= choose.randrange(200) * SECOND
    return house


def at(house: House, headers: list[tuple[int, int]], time: int) -> Snapshot:
    """What the registry was like, by what was kept while it was written.

    :param headers: the first record of each segment, and when it was begun.
    """
    behind = next((index for index, (_, begun) in enumerate(headers) if begun > time), len(headers))
    since = headers[max(0, behind - 1)][0]
    found = (each.seq - 1 for each in house.records[since - 1 :] if each.time > time)
    return house.states[next(found, len(house.records))]


@pytest.mark.dear
def test_the_registry_at_a_thousand_moments(long: House) -> None:
    assert len(long.records) > 3000
    paths = list_segments(long.directory)
    headers = [(first_seq(path), read_header(path).time) for path in paths]
    assert len(paths) > 20
    assert any(later[1] < earlier[1] for earlier, later in itertools.pairwise(headers))
    choose = random.Random(7)
    times = [each.time for each in long.records]
    by_seq = [Moment(seq=choose.randrange(len(long.states))) for _ in range(500)]
    by_time = [Moment(time=choose.randint(min(times) - SECOND, max(times) + SECOND)) for _ in range(500)]
    assert snapshots(long.directory, by_seq) == [long.states[each.seq or 0] for each in by_seq]
    assert snapshots(long.directory, by_time) == [at(long, headers, each.time or 0) for each in by_time]
    for moment in (*by_seq[:40], *by_time[:40]):
        wanted = long.states[moment.seq] if moment.time is None else at(long, headers, moment.time)
        assert snapshots(long.directory, [moment]) == [wanted]


def test_no_more_is_read_than_it_takes(long: House, tmp_path: Path) -> None:
    directory = shutil.copytree(long.directory, tmp_path / "journal")
    paths = list_segments(directory)
    for path in (*paths[:5], *paths[7:]):
        path.unlink()
    first, end = first_seq(paths[5]), first_seq(paths[7])
    moments = [Moment(seq=seq) for seq in range(first - 1, end)]
    assert snapshots(directory, moments) == long.states[first - 1 : end]
    with pytest.raises(JournalError, match=f"begins with record {first}, at "):
        snapshots(directory, [Moment(seq=first - 2)])
    with pytest.raises(JournalError, match=f"ends with record {end - 1}, before record {end}"):
        snapshots(directory, [Moment(seq=end)])


names = st.text(max_size=8)


@given(
    st.lists(st.builds(Session, id=names, protocol=names, routing_id=names, peer=names, opened=st.just(1)), max_size=9),
    st.dictionaries(names, st.lists(names, max_size=3), max_size=9),
    st.sampled_from([1, 2, 3, 100]),
)
def test_the_pieces_of_a_snapshot_are_the_snapshot(
    sessions: list[Session], services: dict[str, list[str]], piece: int
) -> None:
    shown = Snapshot(812, sessions, services, [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot_module, "PIECE", piece)
        pieces = list(encoded_pieces(shown))
    assert b"".join(pieces) == msgspec.json.encode(shown)
    assert len(pieces) >= (len(sessions) + len(services)) / piece
