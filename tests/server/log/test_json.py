"""The log for programs: one JSON object a line, stable names of events, and the page that lists them."""

from __future__ import annotations

import ast
import io
import json
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import FileLogObserver, Logger, LogPublisher, formatEventAsClassicLogText
from twisted.python import log as older
from twisted.python.failure import Failure
from twisted.python.logfile import LogFile

from bussrv.errors import RemoteProtocolError
from bussrv.journal.record import parse_time
from bussrv.net.transport import complaints
from bussrv.server.log.json import FIELDS, json_line, json_observer
from bussrv.server.log.refusals import DENIALS, LIMITS, LOGINS, NAMES, SLOW_CLIENTS
from bussrv.server.log.repeats import MOST, MOST_KNOWN, PAUSE, PERIOD, Repeats
from bussrv.server.log.text import Threshold, escape_event, escape_log, one_line
from tests.docs.pages import blocks, rows
from tests.forked import ForkedServer
from tests.server.log.test_text import FORGED, SCREEN, TURNED, texts

PACKAGE = Path(__file__).parents[3] / "bussrv"


class Written:
    """What is written of a log that is escaped and limited."""

    def __init__(self) -> None:
        self.file = io.StringIO()
        self.clock = MemoryReactorClock()
        self.publisher = LogPublisher()
        escape_log(self.publisher, Threshold())
        self.repeats = Repeats(self.clock)
        self.publisher.addObserver(self.repeats)
        self.publisher.addObserver(FileLogObserver(self.file, json_line))
        self.log = Logger("bussrv.net.transport.complaints", observer=self.publisher)

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.file.getvalue().splitlines()]


@given(texts, texts)
@example(FORGED, SCREEN + TURNED)
def test_whatever_is_logged_is_one_object_a_line(said: str, peer: str) -> None:
    written = Written()
    written.log.info("it says {said}", event="session.malformed", said=said, peer=peer, session="b.1", suppressed=3)
    try:
        raise ValueError(said)
    except ValueError:
        written.log.failure("serving {peer} failed", event="session.failed", peer=peer)
    line, failed = written.lines()
    assert parse_time(str(line["time"])) > 0
    assert (line["level"], line["event"], line["part"]) == ("info", "session.malformed", "formats")
    assert (line["peer"], line["session"], line["suppressed"]) == (one_line(peer), "b.1", 3)
    assert str(line["message"]).startswith("it says")
    assert (failed["level"], failed["event"]) == ("critical", "session.failed")
    assert str(failed["message"]).startswith("serving")
    assert str(failed["traceback"]).startswith("Traceback (most recent call last)")
    assert "test_json.py" in str(failed["traceback"])


def test_lines_of_others_have_no_names() -> None:
    written = Written()
    publisher = older.LogPublisher(publishPublisher=written.publisher)
    publisher.msg("(TCP Port 7890 Closed)")
    publisher.msg(failure=Failure(ValueError("no")), why="why", isError=1)
    Logger("acme.format", observer=written.publisher).warn("hello")
    assert [(line["event"], line["part"], line["level"]) for line in written.lines()] == [
        ("other", "twisted", "info"),
        ("other", "twisted", "critical"),
        ("other", "acme.format", "warn"),
    ]


def test_json_goes_where_text_would_go(tmp_path: Path) -> None:
    assert json_observer({"nodaemon": True})._outFile is sys.stdout
    assert json_observer({"logfile": "-"})._outFile is sys.stdout
    observer = json_observer({"nodaemon": True, "logfile": str(tmp_path / "bussrv.log")})
    assert isinstance(observer._outFile, LogFile)
    Logger("bussrv.bus", observer=observer).info("hello", event="link.up")
    observer._outFile.close()
    assert json.loads((tmp_path / "bussrv.log").read_text())["event"] == "link.up"


# Repeats.


def test_equal_lines_are_limited_and_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written()
    monkeypatch.setattr(
        "bussrv.server.log.repeats.log", Logger("bussrv.server.log.repeats", observer=written.publisher)
    )
    written.repeats.start()
    for more in range(1, 4):
        for _ in range(MOST + more):
            written.log.warn("line {n}", n=more)
    written.clock.pump([PAUSE] * int(PERIOD / PAUSE - 1))
    assert len(written.lines()) == 3 * MOST
    written.clock.pump([PAUSE] * 2)
    sums = written.lines()[3 * MOST :]
    assert [(line["event"], line["level"], line["message"]) for line in sums] == [
        ("log.repeated", "warn", f"{more} more lines like this one within 60 s: line {more}") for more in (1, 2, 3)
    ]
    # A period begins anew, and the end of the server ends all periods.
    for _ in range(MOST + 1):
        written.log.warn("line 1")
    written.repeats.sum_up(at_end=True)
    assert len(written.lines()) == 3 * MOST + 3 + MOST + 1


def test_not_many_lines_are_remembered() -> None:
    written = Written()
    for number in range(3 * MOST_KNOWN):
        written.log.info("line {n}", n=number)
    assert len(written.lines()) == 3 * MOST_KNOWN
    assert len(written.repeats._lines) == MOST_KNOWN


# Names.


@cache
def log_calls() -> tuple[tuple[str, ast.Call], ...]:
    return tuple(found_calls())


def found_calls() -> Iterator[tuple[str, ast.Call]]:
    """The calls that log something, with the names of their modules. Clients use the logging of their programs."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.is_relative_to(PACKAGE / "client"):
            continue
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "log." in text or "drops" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = ast.unparse(node.func.value)
                is_drop = owner.endswith("_drops") or (path.stem, owner) == ("drops", "self")
                levels = {"debug", "info", "warn", "error", "critical", "failure", "emit"}
                owners = ("log", "self._log", "self._lines", "self._rare", "self._refusals")
                is_log = owner in owners and node.func.attr in levels
                if is_log or (is_drop and node.func.attr == "warn"):
                    yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node


PASSED_ON = {"formats/inbus/drops.py"}
"""What it logs, others name."""


def test_every_line_has_a_name_and_the_page_lists_all() -> None:
    named = {"link.up", "link.down", "log.repeated"}
    named |= {each.event for each in (LOGINS, DENIALS, SLOW_CLIENTS, NAMES, LIMITS)}
    for place, call in log_calls():
        names = [each.value for each in call.keywords if each.arg == "event"]
        if not names and place.partition(":")[0] in PASSED_ON:
            continue
        assert len(names) == 1, f"{place} has no name"
        if isinstance(names[0], ast.Constant):
            named.add(names[0].value)
    listed = [row[0].strip("`") for row in rows("docs/reference/log.md") if len(row) == 3 and "." in row[0]]
    assert listed == sorted(named)


def test_the_lines_of_the_page_are_written_so(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[dict[str, Any]] = []
    monkeypatch.setattr(complaints, "log", Logger(complaints.__name__, observer=events.append))
    error = RemoteProtocolError("bad-json", "not JSON: malformed (character 1)")
    complaints.Complaints("objects", Clock().seconds).malformed("5f1c3a.3", "127.0.0.1:40112", error)
    events[0]["log_time"] = parse_time("2026-11-21T14:02:03.123456Z") / 1_000_000
    escape_event(events[0])
    assert json_line(events[0]) in blocks("docs/reference/log.md", "json")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert formatEventAsClassicLogText(events[0]) in blocks("docs/reference/log.md", "text")


def test_the_page_lists_all_fields() -> None:
    listed = {name.strip("`") for row in rows("docs/reference/log.md") if len(row) == 2 for name in row[0].split(", ")}
    own = {"time", "level", "event", "part", "message", "traceback"}
    assert listed - {"field"} == own | set(FIELDS)


def test_a_line_shows_the_session_and_the_address_that_it_has() -> None:
    for place, call in log_calls():
        told = {each.arg for each in call.keywords} & {"session", "peer"}
        texts = " ".join(ast.unparse(each) for each in call.args)
        if call.args and isinstance(call.args[0], ast.Constant):
            assert all(f"{{{each}}}" in texts for each in told), place


@pytest.mark.processes
def test_a_start_begins_with_the_banner_and_ends_with_ready(tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal", ["--log-format", "json"]) as server:
        said = [json.loads(line) for line in server.lines]
        assert server.stop() == 0
    events = [line["event"] for line in said if line["level"] == "info"]
    assert events[0] == "server.started"
    assert events[-1] == "server.ready"
    assert {line["protocol"] for line in said if line["event"] == "server.listening"} >= {"objects", "spp", "inbus"}
    assert json.loads(server.lines[-1])["event"] == "server.stopped"
