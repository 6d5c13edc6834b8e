"""Journals of servers that never ran: the same for the same seed, whole, and wrong only where it is said."""

import json
from collections import Counter

import pytest

from bussrv import events as ev
from bussrv.cli.main import main
from bussrv.journal.batch import Rotation
from bussrv.journal.keys import generate, read_private
from bussrv.journal.reading import read_journal
from bussrv.journal.recovery import recover
from bussrv.journal.verify import verify
from bussrv.registry.state.fold import RegistryFold
from bussrv.registry.state.state import RegistryState
from bussrv.synth.faults import KINDS
from bussrv.synth.journal import BEGIN, EACH, write_journal
from bussrv.synth.world import DAILY, HOUR, World

DAY = 24 * HOUR
EVENTS = 30_000
SOME = 1_200
UPTIME = HOUR / 2


def days(events, seed=0, **options):
    """The events of a world, stamped; and the world."""
    found = []
    world = World("hall", seed, BEGIN, found.extend, **options)
    world.run(events)
    return found, world


@pytest.fixture(scope="module")
def long_days():
    return days(EVENTS, uptime=UPTIME)


def test_the_same_seed_gives_the_same_days():
    first, second, other = days(3_000, 5)[0], days(3_000, 5)[0], days(3_000, 6)[0]
    assert first == second != other


@pytest.mark.dear
def test_as_many_events_as_are_asked_for_at_the_pace_of_a_server(long_days):
    found, world = long_days
    assert world.written == len(found)
    assert 0.97 * EVENTS <= len(found) <= 1.03 * EVENTS
    daily = len(found) / ((found[-1].time - BEGIN) / DAY)
    assert 0.3 * DAILY < daily < 3 * DAILY


def test_everything_that_a_server_sees_happens(long_days):
    kinds = Counter(type(each.event) for each in long_days[0])
    never = {
        ev.LinkGap,
        ev.LinkForgotten,
        ev.LinkClock,
        ev.ServiceRefused,
        ev.AccessDenied,
        ev.ConfigReloaded,
        ev.ConfigReloadFailed,
        ev.AdminAction,
        ev.AccessUsed,
        ev.IncidentAcknowledged,
        ev.JournalSalvaged,
        ev.JournalPruned,
        ev.SealWitnessed,
        ev.SealRefused,
    }
    assert kinds.keys() >= set(ev.EVENT_CLASSES) - never - {ev.JournalDegraded, ev.JournalRestored}
    formats = {each.event.protocol for each in long_days[0] if isinstance(each.event, ev.SessionOpened)}
    assert formats == {"objects", "business", "inbus", "mqtt", "spp"}


def test_clean_days_contradict_themselves_nowhere(long_days):
    """Every opening and closing, registration and its end, subscription and renewal changes the registry."""
    state, opened = RegistryState(), set()
    for each in long_days[0]:
        event = each.event
        if isinstance(event, ev.SessionOpened):
            assert event.session not in opened
            opened.add(event.session)
        elif isinstance(event, ev.SessionClosed):
            assert event.session in state.sessions
            assert event.reason != "session-expired" or state.sessions[event.session].away.until <= each.time
            assert event.objects_out or not event.bytes_out
        elif isinstance(event, (ev.SessionLeft, ev.SessionResumed)):
            assert state.sessions[event.session].is_away == isinstance(event, ev.SessionResumed)
        elif isinstance(event, ev.ServiceRegistered):
            assert event.session in state.sessions
            assert event.service not in state.provided_by(event.session)
        elif isinstance(event, ev.ServiceUnregistered):
            assert event.service in state.provided_by(event.session)
        elif isinstance(event, (ev.SubscriptionAdded, ev.SubscriptionRenewed, ev.SubscriptionRemoved)):
            assert event.session in state.sessions
        state.apply(event, each.time)
    assert all(each.has_leases or each.is_away for each in state.sessions.values())
    times = [each.time for each in long_days[0]]
    assert times == sorted(times)


def test_a_journal_that_a_server_could_have_written(tmp_path):
    generate(tmp_path / "key")
    key = read_private(tmp_path / "key")
    directory = tmp_path / "journal"
    rotation = Rotation(bytes=200_000)
    assert write_journal(directory, events=4_000, key=key, compress=True, rotation=rotation) == []
    report = verify(directory, key.public)
    assert report.faults == []
    assert report.segments > 3
    assert report.sealed_seq == report.last_seq == report.records
    fold, state = RegistryFold(), RegistryState()
    assert recover(directory, fold).stopped
    for record in read_journal(directory):
        state.apply(record.event, record.time)
    assert fold.state == state


def test_crashes_leave_boots_behind(tmp_path):
    write_journal(tmp_path, events=6_000, uptime=UPTIME / 4)
    assert verify(tmp_path).faults == []
    boots = Counter(record.boot for record in read_journal(tmp_path))
    assert len(boots) > 1


@pytest.fixture(scope="module")
def without_faults(tmp_path_factory):
    clean = tmp_path_factory.mktemp("clean")
    assert write_journal(clean, events=SOME) == []
    return [(record.time, record.event) for record in read_journal(clean)]


@pytest.mark.dear
@pytest.mark.parametrize("kind", KINDS)
def test_faults_are_where_they_are_said_to_be(tmp_path, without_faults, kind):
    distorted = tmp_path / "distorted"
    faults = write_journal(distorted, events=SOME, faults=[kind])
    assert [each.kind for each in faults] == [kind] * EACH
    assert verify(distorted).faults == []
    wrong = [(record.time, record.event) for record in read_journal(distorted)]
    first = next(index for index, pair in enumerate(zip(without_faults, wrong, strict=False)) if pair[0] != pair[1])
    # A record that was put in, or that stands where another one should, is the first that differs.
    assert first + 1 == faults[0].seq


def test_the_command(tmp_path, capsys):
    directory = tmp_path / "journal"
    said = ["journal", "synth", str(directory), "--events", "2000", "--seed", "7", "--server", "cellar"]
    assert main([*said, "--faults", "all"]) == 0
    faults = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert Counter(each["kind"] for each in faults) == dict.fromkeys(KINDS, EACH)
    assert {record.server for record in read_journal(directory)} == {"cellar"}
    assert main(said) == 2
    assert capsys.readouterr().err == f"bussrv journal: {directory} holds a journal already\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--events", "0"], "'0' is not a number of records"),
        (["--events", "x"], "'x' is not a number of records"),
        (["--faults", "rust"], "there is no fault 'rust'; there are session-opened-twice"),
        (["--seed", "x"], "'x' is not a valid integer"),
    ],
)
def test_what_makes_no_sense(tmp_path, capsys, given, said):
    assert main(["journal", "synth", str(tmp_path / "journal"), *given]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "journal").exists()


def test_a_directory_that_cannot_be_written(tmp_path, capsys):
    tmp_path.joinpath("file").touch()
    assert main(["journal", "synth", str(tmp_path / "file" / "journal")]) == 2
    assert "cannot write" in capsys.readouterr().err
