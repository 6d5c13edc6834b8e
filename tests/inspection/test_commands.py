"""``bussrv journal`` as a person, a script or a terminal meets it."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.inspection import commands
from bussrv.inspection.words import record_line
from bussrv.journal.record import Record, decode
from bussrv.journal.segment import list_segments, segment_name
from bussrv.terminal import word
from bussrv.wire import spp
from tests.audit.commands import BUSSRV, ROOT, run
from tests.forked import ForkedServer
from tests.inspection.shell import Shell
from tests.inspection.test_reading import write

VECTORS = ROOT.joinpath("tests", "vectors", "journal.jsonl").read_bytes().splitlines(keepends=True)
RECORDS = [decode(line) for line in VECTORS if b',"seq":' in line[:120]]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """The records of the vectors, in two segments."""
    write(tmp_path / "journal", RECORDS[:20], RECORDS[20:])
    return tmp_path / "journal"


def lines(journal: Path) -> list[bytes]:
    """Those of the records."""
    found = [line for path in list_segments(journal) for line in path.read_bytes().splitlines(keepends=True)]
    return [line for line in found if b',"seq":' in line[:120]]


def test_tail_shows_the_last_ten(shell: Shell, journal: Path) -> None:
    status, said, complained = shell.run("tail", journal)
    assert (status, complained) == (0, "")
    assert [line.split()[1] for line in said.splitlines()] == [str(seq) for seq in range(34, 44)]
    eva = "actor=eva peer=10.0.0.9:{} session=5f1c2ab94e07.5 routing_id=5b7c9d0e1f2a3b4c5d6e7f80"
    assert said.splitlines()[:4] == [
        f"2026-11-21T14:02:03.157487Z 34 session.opened {eva.format(50003)}",
        (
            f"2026-11-21T14:02:03.158487Z 35 session.left {eva.format(50003)} reason=connection-lost "
            "until=2026-11-22T14:02:03.156487Z"
        ),
        f"2026-11-21T14:02:03.159487Z 36 session.resumed {eva.format(50004)}",
        (
            "2026-11-21T14:02:03.160487Z 37 link.gap failed peer=10.0.0.2:7890 routing_id=uplink/office service=tv "
            "origin=attic lost=12 reason=objects-lost"
        ),
    ]


def test_tail_lets_no_text_of_strangers_through_to_the_terminal(shell: Shell, journal: Path) -> None:
    _, said, _ = shell.run("tail", journal, "--event", "auth.failed")
    assert r'claimed="a \"quoted\" \\ name \u0007 ' in said
    assert [word(each) for each in ("tv", "Tür", "", "a b", "\x9b31m", "\u202e", "a\x7f")] == [
        "tv", "Tür", '""', '"a b"', '"\\u009b31m"', '"\\u202e"', '"a\\u007f"',
    ]  # fmt: skip


def test_a_line_has_the_rule_of_a_denial_and_reloaded_options() -> None:
    denied = ev.AccessDenied(
        session="a.1", action="watch", target="tv", rule="p.toml:3: watch = !tv", reason="not-allowed"
    )
    lines = [
        record_line(Record(seq=1, time=0, mono=0, server="s", boot="b", event=event), in_colours=False)
        for event in (denied, ev.ConfigReloaded(changed=("auth", "policy")), ev.ConfigReloaded())
    ]
    assert [line.split(" ", 2)[2] for line in lines] == [
        'access.denied refused session=a.1 action=watch target=tv rule="p.toml:3: watch = !tv" reason=not-allowed',
        "config.reloaded changed=auth,policy",
        "config.reloaded",
    ]


@pytest.mark.parametrize("count", [0, 1, 12, 43, 1000])
def test_tail_as_json_is_the_very_lines(shell: Shell, journal: Path, count: int) -> None:
    assert shell.run("tail", journal, "-n", count, "--json") == (
        0,
        b"".join(lines(journal)[max(0, len(RECORDS) - count) :]).decode(),
        "",
    )


FILTERS = [
    (("--session", "5f1c2ab94e07.4"), [12, 13, 14, 16]),
    (("--service", "door/#"), [13, 14, 15, 16]),
    (("--event", "session.opened,session.closed"), [4, 12, 23, 25, 26, 34]),
    (("--protocol", "spp"), [17, 18]),
    (("--session", "5f1c2ab94e07.3", "--event", "service.registered"), [9]),
    (("--session", "nobody"), []),
    (("--service", "door/#", "-n", "2"), [15, 16]),
    (("--user", "eva"), [34, 35, 36]),
    (("--user", "anna", "-n", "3"), [11, 23, 32]),
    (("--address", "::1"), [17, 18]),
    (("--address", "10.0.0.9:50004"), [36]),
    (("--address", "10.0.0.9", "--user", "ann"), []),
    (("--since", "2026-11-21T14:02:03.138471Z", "--until", "2026-11-21T14:02:03.142475Z"), [15, 16, 17, 18]),
    (("--since", "2026-11-21T15:02:03.125", "--zone", "Europe/Berlin", "--event", "session.opened"), [4, 12, 25, 34]),
    (("--since", "2026-11-21", "-n", "1"), [43]),
    (("--until", "2026-11-20"), []),
]


@pytest.mark.parametrize(("options", "wanted"), FILTERS)
def test_tail_counts_what_the_filters_leave(
    shell: Shell, journal: Path, options: tuple[str, ...], wanted: list[int]
) -> None:
    status, said, _ = shell.run("tail", journal, "--json", *options)
    assert (status, [json.loads(line)["seq"] for line in said.splitlines()]) == (0, wanted)


def test_state(shell: Shell, journal: Path) -> None:
    status, said, _ = shell.run("state", journal, "--json", "--at", "9")
    found = json.loads(said)
    assert (status, found["seq"], found["services"]) == (0, 9, {"Türklingel": ["5f1c2ab94e07.3"]})
    assert shell.run("state", journal, "--json", "--at", "2026-11-21T14:02:03.132465Z")[1] == said
    assert json.loads(shell.run("state", journal, "--json")[1])["seq"] == 43
    assert json.loads(shell.run("state", journal, "--json", "--at", "2026-11-21T14:02:03Z")[1])["seq"] == 0


def test_diff(shell: Shell, journal: Path) -> None:
    status, said, _ = shell.run("diff", journal, "9", "13")
    assert (status, said.splitlines()) == (
        1,
        [
            "From record 9 to record 13:",
            "+ session 5f1c2ab94e07.4 protocol=inbus routing_id=90ab12cd34ef56ab78cd90ef peer=192.168.7.20:7001",
            "- service Türklingel session=5f1c2ab94e07.3",
            '+ subscription service=door/# session=5f1c2ab94e07.4 options={"version":2}',
        ],
    )
    back = json.loads(shell.run("diff", journal, "13", "9", "--json")[1])
    assert [each["id"] for each in back["sessions"]["went"]] == ["5f1c2ab94e07.4"]
    assert back["services"]["came"] == [{"service": "Türklingel", "session": "5f1c2ab94e07.3"}]


def test_who_is_away_is_shown(shell: Shell, journal: Path) -> None:
    _, said, _ = shell.run("diff", journal, "34", "35")
    assert said.splitlines()[1].endswith(
        " away_since=2026-11-21T14:02:03.158487Z kept_until=2026-11-22T14:02:03.156487Z"
    )
    _, said, _ = shell.run("state", journal, "--at", "35")
    assert "since 2026-11-21T14:02:03.158487Z, kept until 2026-11-22T14:02:03.156487Z" in said
    assert "AWAY" not in shell.run("state", journal)[1]


def test_diff_of_what_is_the_same(shell: Shell, journal: Path) -> None:
    said = "Nothing differs between record 9 and record 10.\n"
    assert shell.run("diff", journal, "9", "10") == (0, said, "")
    assert shell.run("diff", journal, "9", "10", "--json")[0] == 0


def test_diff_shows_what_changed_of_a_session(shell: Shell, journal: Path) -> None:
    status, said, _ = shell.run("diff", journal, "4", "5")
    assert status == 1
    assert said.splitlines()[1].startswith("~ session 5f1c2ab94e07.3 protocol=objects routing_id=4be29")
    assert " -> 5f1c2ab94e07.3 protocol=objects routing_id=hall-door claimed=anna" in said


@pytest.mark.parametrize("arguments", [("tail", "-n", "100"), ("state",), ("diff", "1", "2027-01-01T00:00:00Z")])
def test_damage_is_one_sentence(shell: Shell, journal: Path, arguments: tuple[str, ...]) -> None:
    path = journal / segment_name(21)
    found = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*found[:4], b"junk\n", *found[4:]]))
    name, *rest = arguments
    status, said, complained = shell.run(name, journal, *rest)
    assert (status, said) == (2, "")
    assert complained.startswith(f"bussrv journal: {path}, line 5: not a journal record")
    assert complained.count("\n") == 1


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("23", ["22", f"{segment_name(21)},", "23", "24"]),
        ("22", ["20", "21", "22", f"{segment_name(21)},"]),
        ("1", ["1", "2", "3", "4"]),
        ("2026-11-21T14:02:03.156486Z", ["31", "32", "33", "34"]),
        ("2026-11-18T06:00:00Z", ["1", "2", "3", "4"]),
        (f"{segment_name(21)}:5", ["21", "22", f"{segment_name(21)},", "23"]),
        (f"{segment_name(21)}.gz:4", ["21", "22", f"{segment_name(21)},", "23"]),
    ],
)
def test_what_is_around_a_place_is_shown_even_if_damaged(
    shell: Shell, journal: Path, place: str, shown: list[str]
) -> None:
    path = journal / segment_name(21)
    found = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*found[:4], b"junk \xff\x1b[31m" + b"x" * 999 + b"\n", *found[4:]]))
    status, said, complained = shell.run("tail", journal, "--around", place, "-n", "4")
    lines = said.splitlines()
    assert (status, complained) == (0, "")
    assert [line.split()[0 if line.startswith("0") else 1] for line in lines] == shown
    quoted = [line for line in lines if line.startswith("0")]
    assert [len(line) < 250 for line in quoted] == [True] * len(quoted)
    assert said.replace("\n", "").isprintable()


def test_the_end_says_which_records_a_salvage_left_out(shell: Shell) -> None:
    salvaged = ROOT / "docs" / "reference" / "journal-format" / "salvaged"
    status, said, complained = shell.run("tail", salvaged, "-n", "27")
    assert (status, said.splitlines()[0].split()[1]) == (0, "6")
    sentence = "a new chain begins with record 6, after damage in segment 1, line 5; --around 5 shows what is before it"
    assert complained == f"bussrv journal: {sentence}\n"
    before = shell.run("tail", salvaged, "--around", "5", "-n", "2")[1]
    assert [line.split()[1] for line in before.splitlines()] == ["4", "5"]
    assert shell.run("tail", salvaged, "-n", "3")[2] == ""


@pytest.mark.parametrize(("count", "shown"), [(0, []), (1, ["23"]), (2, ["22", "23"]), (3, ["22", "23", "24"])])
def test_few_lines_around_a_place(shell: Shell, journal: Path, count: int, shown: list[str]) -> None:
    status, said, complained = shell.run("tail", journal, "--around", "23", "-n", count)
    assert (status, complained) == (0, "")
    assert [line.split()[1] for line in said.splitlines()] == shown


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("44", "has no record 44 or a later one; the last record is 43"),
        ("99999", "has no record 99999 or a later one; the last record is 43"),
        ("2027-01-01T00:00:00Z", "has no record at 2027-01-01T00:00:00.000000Z or later; the last record is 43"),
        (f"{segment_name(1)}:999", f"has no line 999 in {segment_name(1)}; the last record is "),
    ],
)
def test_a_place_after_the_end_is_one_sentence(shell: Shell, journal: Path, place: str, sentence: str) -> None:
    for count in (0, 1, 10):
        status, said, complained = shell.run("tail", journal, "--around", place, "-n", count)
        assert (status, said, complained.count("\n")) == (2, "", 1)
        assert complained.startswith(f"bussrv journal: {journal} {sentence}")


@pytest.mark.parametrize("arguments", [("tail",), ("tail", "-f"), ("state",), ("diff", "1", "2")])
def test_no_such_journal(shell: Shell, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    name, *rest = arguments
    status, said, complained = shell.run(name, tmp_path / "nowhere", *rest)
    assert (status, said, complained.count("\n")) == (2, "", 1)
    assert "cannot read the journal directory" in complained
    assert not (tmp_path / "nowhere").exists()


def test_wrong_command_lines(shell: Shell, journal: Path) -> None:
    assert "there is no event 'session.open'; there are server.started" in shell.wrong(
        "tail", journal, "--event", "session.open"
    )
    assert "'-1' is not a number of records" in shell.wrong("tail", journal, "-n", "-1")
    assert "'now' is neither the number of a record nor a time" in shell.wrong("state", journal, "--at", "now")
    assert "there is no command 'tale'; did you mean 'tail'?" in shell.wrong("tale")


def on_a_terminal(journal: Path, **environment: str) -> str:
    """What ``tail`` shows on a terminal."""
    ours, theirs = pty.openpty()
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", **environment}
    command = [
        sys.executable,
        *BUSSRV,
        "journal",
        "tail",
        str(journal),
        "-n",
        "3",
        "--event",
        "auth.succeeded,link.down,service.refused",
    ]
    with subprocess.Popen(command, stdout=theirs, env=variables) as process:
        os.close(theirs)
        said = b""
        # A terminal whose last user is gone cannot be read on Linux.
        while chunk := read_or_nothing(ours):
            said += chunk
    os.close(ours)
    assert process.returncode == 0
    return said.decode()


def read_or_nothing(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""


@pytest.mark.processes
def test_refusals_and_failures_stand_out_on_a_terminal(journal: Path) -> None:
    refused, succeeded, failed = on_a_terminal(journal, NO_COLOR="").splitlines()
    assert "\x1b[1;33m10 service.refused refused" in refused
    assert "\x1b[1;31m21 link.down failed" in failed
    assert "\x1b[0m 17 auth.succeeded" in succeeded
    assert "\x1b" not in on_a_terminal(journal, NO_COLOR="1")
    assert "\x1b" not in on_a_terminal(journal, NO_COLOR="", TERM="dumb")


@pytest.mark.processes
@pytest.mark.parametrize("arguments", [["journal", "tail", "."], ["policy", "show", "--policy", "policy.toml"]])
def test_nobody_reads_any_more(arguments: list[str], journal: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('[[rule]]\nwatch = "tv"\n')
    command = [sys.executable, *BUSSRV, *(str(journal) if each == "." else each for each in arguments)]
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path, env=environment)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.processes
def test_text_that_the_locale_does_not_know(journal: Path) -> None:
    done = run(journal.parent, BUSSRV, "journal", "tail", journal, "--service", "Türklingel", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "service=Türklingel" in done.stdout


class Following:
    """``tail -f`` as a process of its own, as a context manager that ends it."""

    def __init__(self, journal: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *BUSSRV, "journal", "tail", str(journal), "-f", "--json", *options],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def next(self) -> dict[str, object]:
        assert self.process.stdout is not None
        found: dict[str, object] = json.loads(self.process.stdout.readline())
        return found

    def until(self, event: str) -> dict[str, object]:
        """The next record of that event."""
        while (found := self.next())["event"] != event:
            pass
        return found

    def interrupt(self) -> tuple[int, str]:
        """Ctrl-C: the exit status, and what it complained of."""
        self.process.send_signal(signal.SIGINT)
        _, complained = self.process.communicate(timeout=30)
        return self.process.returncode, complained

    def __enter__(self) -> "Following":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.processes
def test_tail_follows_a_server_through_its_restart(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with ForkedServer(journal) as server, Following(journal, "-n", "1000") as following:
        first = following.until("server.started")
        with ObjectsClient(port=server.port("objects")) as client:
            client.subscribe(**{"routing-id": "ann"})
            client.register("tv")
            while (registered := following.until("service.registered"))["service"] != "tv":
                pass
            assert registered["routing_id"] == "ann"
        assert server.stop() == 0
        stopped = following.until("server.stopped")
        with ForkedServer(journal) as again:
            second = following.until("server.started")
            assert (second["seq"], second["boot"] != first["boot"]) == (int(str(stopped["seq"])) + 1, True)
            assert following.interrupt() == (130, "")
            assert again.stop() == 0
    assert len(list_segments(journal)) == 2


@pytest.mark.processes
def test_tail_follows_what_the_filters_leave(tmp_path: Path) -> None:
    with (
        ForkedServer(tmp_path / "journal") as server,
        Following(tmp_path / "journal", "-n", "9", "--service", "tv") as following,
        ObjectsClient(port=server.port("objects")) as client,
    ):
        client.subscribe()
        client.register("radio")
        client.register("tv")
        assert following.next()["service"] == "tv"


@pytest.mark.processes
def test_state_at_the_end_is_the_snapshot_of_the_server(shell: Shell, tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal") as server:
        with SppClient(port=server.port("spp")) as watcher, ObjectsClient(port=server.port("objects")) as client:
            client.subscribe(**{"routing-id": "ann"})
            client.register("tv")
            watcher.subscribe("bus/registry")
            info = watcher.wait_for(lambda event: isinstance(event, spp.Info))
            assert isinstance(info, spp.Info)
            told = json.loads(info.message)
            status, said, _ = shell.run("state", tmp_path / "journal", "--json", "--at", told["seq"])
        assert (status, json.loads(said)) == (0, told)
        assert server.stop() == 0


def test_a_journal_is_left_alone_between_two_looks(
    monkeypatch: pytest.MonkeyPatch, shell: Shell, tmp_path: Path
) -> None:
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    write(tmp_path, [Record(1, 1, 1, "hall", "boot", ev.ServerStopped())])
    monkeypatch.setattr(commands.time, "sleep", pause)
    assert shell.run("tail", tmp_path, "-f")[0] == 130
    assert pauses == [commands.POLL_SECONDS] * 3
    assert commands.POLL_SECONDS >= 0.2
