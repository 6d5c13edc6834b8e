"""``state`` and ``diff`` of several journals: each server as if it were asked for alone, at the same times."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.errors import JournalError
from bussrv.inspection.difference import difference
from bussrv.journal.moments import END, Moment
from bussrv.journal.record import Record, format_time
from bussrv.registry.state.history import snapshots_by_server
from bussrv.registry.state.snapshot import snapshot
from bussrv.registry.state.state import RegistryState
from tests.audit.commands import BUSSRV, run
from tests.inspection.shell import Shell
from tests.inspection.test_reading import write
from tests.registry.state.test_history import complete
from tests.size import sized

SERVERS = ["hall", "attic", "cellar"]


def records(server, events, times):
    return [
        Record(seq, time, seq, server, "boot", event)
        for seq, (event, time) in enumerate(zip(events, times, strict=True), start=1)
    ]


def folded(said, time):
    """The registry of a server by hand."""
    state, seq = RegistryState(), 0
    for each in said:
        if time is not None and each.time > time:
            break
        state.apply(each.event, each.time)
        seq = each.seq
    return snapshot(seq, state)


@settings(max_examples=sized(40))
@given(st.lists(complete.filter(len), min_size=1, max_size=3), st.data())
def test_each_server_is_as_a_plain_fold_of_its_own_journal(drawn, data):
    with TemporaryDirectory() as place:
        said = {}
        for server, events in zip(SERVERS, drawn, strict=False):
            times = data.draw(st.lists(st.integers(1, 9), min_size=len(events), max_size=len(events)).map(sorted))
            said[server] = records(server, events, times)
            half = len(events) // 2
            write(Path(place) / server, *(part for part in (said[server][:half], said[server][half:]) if part))
        times = [0, 3, 4, 9, None]
        moments = [END if time is None else Moment(time=time) for time in times]
        found = snapshots_by_server([Path(place) / server for server in said], moments)
        assert list(found) == list(said)
        assert found == {server: [folded(each, time) for time in times] for server, each in said.items()}


@pytest.fixture
def hall_and_attic(tmp_path: Path) -> list[Path]:
    for server, services in (("hall", ["tv", "radio"]), ("attic", ["lamp"])):
        session = {"session": f"{server}.1", "protocol": "objects", "routing_id": server, "peer": "10.0.0.1:1"}
        events = [ev.SessionOpened(**session), *(ev.ServiceRegistered(service=name, **session) for name in services)]
        write(tmp_path / server, records(server, events, [seq * 1_000_000 for seq in range(len(events))]))
    return [tmp_path / "hall", tmp_path / "attic"]


def at(second: float) -> str:
    return format_time(int(second * 1_000_000))


def test_state_is_an_object_by_server(shell: Shell, hall_and_attic: list[Path]) -> None:
    status, said, complained = shell.run("state", "--json", *hall_and_attic, "--at", at(1))
    assert (status, complained) == (0, "")
    shown = json.loads(said)
    assert list(shown) == ["hall", "attic"]
    assert {server: (each["seq"], each["services"]) for server, each in shown.items()} == {
        "hall": (2, {"tv": ["hall.1"]}),
        "attic": (2, {"lamp": ["attic.1"]}),
    }
    for directory in hall_and_attic:
        assert json.loads(shell.run("state", "--json", directory, "--at", at(1))[1]) == shown[directory.name]
    assert json.loads(shell.run("state", "--json", *hall_and_attic)[1])["hall"]["seq"] == 3


def test_diff_has_a_part_for_each_server(shell: Shell, hall_and_attic: list[Path]) -> None:
    hall = "hall:\nFrom record 2 to record 3:\n+ service radio session=hall.1\n"
    attic = "attic:\nNothing differs between record 2 and record 2.\n"
    assert shell.run("diff", *hall_and_attic, at(1), at(5)) == (1, f"{hall}\n{attic}", "")
    assert shell.run("diff", *hall_and_attic, at(5), at(6))[0] == 0
    status, said, _ = shell.run("diff", "--json", *hall_and_attic, at(1), at(5))
    hall, attic = (
        snapshots_by_server([each], [Moment(time=time) for time in (1_000_000, 5_000_000)]) for each in hall_and_attic
    )
    wanted = {**hall, **attic}
    assert (status, json.loads(said)) == (
        1,
        json.loads(msgspec.json.encode({server: difference(*each) for server, each in wanted.items()})),
    )


@pytest.mark.parametrize("arguments", [("state", "--at", "2"), ("diff", "2", "2026-11-21T14:02:03Z")])
def test_the_number_of_a_record_does_not_fit_several_journals(shell, hall_and_attic, arguments):
    name, *rest = arguments
    assert shell.run(name, *hall_and_attic, *rest) == (
        2,
        "",
        "bussrv journal: record 2 is a record of one journal. To look into several journals, give a time instead\n",
    )


def test_each_server_has_one_journal(hall_and_attic: list[Path]) -> None:
    hall, _ = hall_and_attic
    with pytest.raises(JournalError, match=r"hall and .*hall are journals of the same server, hall"):
        snapshots_by_server([hall, hall], [END])


@pytest.mark.processes
def test_as_a_process(hall_and_attic: list[Path]) -> None:
    place, names = hall_and_attic[0].parent, [each.name for each in hall_and_attic]
    done = run(place, BUSSRV, "journal", "state", "--json", *names)
    assert (done.returncode, done.stderr) == (0, "")
    assert [each["seq"] for each in json.loads(done.stdout).values()] == [3, 2]
    done = run(place, BUSSRV, "journal", "diff", *names, at(1), at(2))
    assert (done.returncode, done.stderr, done.stdout.count("\n+ ")) == (1, "", 1)
