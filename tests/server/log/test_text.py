"""No event of the log writes more than its line, or what is no text, whoever logs it and whoever writes it."""

from __future__ import annotations

import ast
import io
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from twisted.logger import (
    FilteringLogObserver,
    LegacyLogObserverWrapper,
    Logger,
    LogLevel,
    LogPublisher,
    textFileLogObserver,
)
from twisted.python import log as older
from twisted.python.failure import Failure

from bussrv.server.log.levels import Levels, LogLevelName
from bussrv.server.log.text import Threshold, escape_log, escaped, one_line
from bussrv.terminal import MOST
from tests.tables import each_row

PACKAGE = Path(__file__).parents[3] / "bussrv"
FORGED = "x\r\n2026-11-21T14:02:03+0000 [bussrv.server.running.service#info] bussrv stopped"
SCREEN = "\x1b[2J\x9b31m\x00\x7f"
TURNED = "\u202eevil\u2066\u2028\u2029\u200b\ufeff\udc80"
BIDI = set("\u200b\u200e\u200f\u202a\u202e\u2066\u2069\ufeff")
texts = st.text(max_size=30) | st.sampled_from([FORGED, SCREEN, TURNED, "{log_source}", "{", "%(x)s", "\n", "a\\n"])


class Written:
    """What the two kinds of observers write of a log that is escaped."""

    def __init__(self) -> None:
        self._files = io.StringIO(), io.StringIO()
        self.publisher = LogPublisher()
        self.threshold = Threshold()
        escape_log(self.publisher, self.threshold)
        self.publisher.addObserver(textFileLogObserver(self._files[0], timeFormat=""))
        wrapped = LegacyLogObserverWrapper(older.FileLogObserver(self._files[1]).emit)
        self.publisher.addObserver(FilteringLogObserver(wrapped, []))
        self.log = Logger("a.module", observer=self.publisher)

    def texts(self) -> list[str]:
        return [file.getvalue() for file in self._files]

    def lines(self) -> list[str]:
        """The lines of both: those that begin one, not those that continue it."""
        return [line for text in self.texts() for line in text.split("\n") if line and not line.startswith("\t")]


def is_fit(text: str) -> bool:
    found = {unicodedata.category(each) for each in text.replace("\n", "").replace("\t", "")}
    return not found & {"Cc", "Cs", "Zl", "Zp"} and not set(text) & set(
        "\u200b\u200e\u200f\u202a\u202e\u2066\u2069\ufeff"
    )


@given(texts, texts)
@example(FORGED, SCREEN + TURNED)
def test_whatever_a_field_holds_is_one_line(name: str, peer: str) -> None:
    written = Written()
    written.log.warn("client {name} at {peer!r}: {n}", name=name, peer=peer, n=1)
    assert len(written.lines()) == 2
    for text in written.texts():
        assert text.count("\n") == 1
        assert is_fit(text)
        assert f"client {escaped(name)} at" in text


@given(texts)
@example(FORGED)
def test_whatever_an_exception_says_is_one_line_of_its_traceback(said: str) -> None:
    written = Written()
    try:
        raise ValueError(said)
    except ValueError:
        written.log.failure("serving {name} failed", name=said)
    assert len(written.lines()) == 2
    for text in written.texts():
        assert is_fit(text)
        assert "\n\tTraceback (most recent call last):\n" in text
        assert "test_text.py" in text
        assert not re.search(r"^\t?2026-11-21", text, re.MULTILINE)


@given(texts)
@example(FORGED)
def test_so_it_is_with_the_older_interface(said: str) -> None:
    written = Written()
    publisher = older.LogPublisher(publishPublisher=written.publisher)
    publisher.msg(said)
    publisher.msg(format="it says: %(said)s", said=said)
    try:
        raise ValueError(said)
    except ValueError:
        publisher.msg(failure=Failure(), why=said, isError=1)
    assert len(written.lines()) == (6 if said else len(written.lines()))
    for text in written.texts():
        assert is_fit(text)
        assert "Traceback" in text


@each_row("name", ["log_system", "system", "log_namespace"])
def test_where_it_comes_from_is_escaped_too(name: str) -> None:
    written = Written()
    written.log.info("hello", **{name: FORGED})
    assert len(written.lines()) == 2
    assert all(map(is_fit, written.texts()))


def test_what_is_fit_is_left_as_it_is() -> None:
    seen: list[dict[str, Any]] = []
    publisher = LogPublisher()
    escape_log(publisher, Threshold())
    publisher.addObserver(seen.append)
    log = Logger("a.module", observer=publisher)
    log.info("Türklingel {name} 🔒", name="a \\n 'b'")
    log.failure("failed", Failure(ValueError("why")))
    assert seen[0]["log_format"] == "Türklingel {name} 🔒"
    assert "log_escaped" not in seen[0]
    assert isinstance(seen[1]["log_failure"], Failure)


def test_a_long_text_is_cut() -> None:
    assert len(one_line("\x1b" * 10 * MOST)) < 5 * MOST
    assert one_line("a" * (MOST + 7)).endswith("a… (7 more characters)")
    written = Written()
    written.log.failure("failed", Failure(ValueError("b" * 10**6)))
    assert all(len(text) < 2 * MOST for text in written.texts())


@each_row("least", ["debug", "info", "warn", "error"])
def test_events_below_the_level_write_nothing(least: LogLevelName) -> None:
    names = ["debug", "info", "warn", "error", "critical"]
    written = Written()
    written.threshold.levels = Levels(least)
    for name in names:
        level = LogLevel.levelWithName(name)
        written.log.emit(level, "said {name}", name=name)
        written.log.failure("failed {name}", Failure(ValueError(name)), level, name=name)
    expected = [f"{verb} {name}" for name in names[names.index(least) :] for verb in ("said", "failed")]
    for text in written.texts():
        assert re.findall(r"said \w+|failed \w+", text) == expected
        assert text.count("Traceback") == len(expected) // 2
        assert not any(line.endswith(("] ", "]")) for line in text.splitlines())


# How often.


def log_calls() -> Iterator[tuple[str, ast.Call]]:
    """The calls by which what clients and other servers do gets into the log."""
    for package in ("bus", "formats", "net", "policy", "registry", "services", "wire"):
        for path in sorted((PACKAGE / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("log."):
                    yield f"{path.relative_to(PACKAGE)}", node


UNTHROTTLED = {
    "formats/objects/dialing.py": "this server dials, with growing delays",
    "net/transport/complaints.py: text": "each address has a limit: `_about` says no more of it then",
    "net/tls/dialing.py": "this server dials, with growing delays",
    "formats/mqtt/clients.py": "once; further ones are counted",
    "bus/sessions/durable.py": "once, at the start",
    "bus/services/wills.py": "once, at the start",
    "bus/services/durable_retained.py": "once, at the start, or when the first client comes",
    "services/discovery/home_assistant.py": "when the server starts",
    "policy/logins/logins.py": "two secrets are checked at a time",
    "policy/logins/checkers.py": "two secrets are checked at a time",
    "formats/inbus/intake.py: inbus: the system grants {granted} bytes of receive buffer, not {wanted}: raise "
    "net.core.rmem_max, or lower --inbus-receive-buffer": "when the server starts",
    "services/hosting.py: the journal gives the service {name!r} to {whom!r} at {peer} ({protocol}, "
    "session {session}): that client loses it, because the server itself provides it now": "when the server starts",
    "services/hosting.py: the service {name} cannot be offered": "when the server starts",
    "services/hosting.py: the service {name} is not offered: {why}": "when the server starts",
    "services/hosting.py: --services: {name} is not provided: {why}": "when the server starts",
}


@pytest.mark.dear
def test_what_others_cause_is_logged_at_a_limited_rate() -> None:
    calls = list(log_calls())
    assert len(calls) > 8
    unlimited = set()
    for path, call in calls:
        if not any(each.arg == "suppressed" for each in call.keywords):
            first = call.args[0]
            unlimited.add((path, first.value if isinstance(first, ast.Constant) else ast.unparse(first)))
    assert [each for each in unlimited if each[0] not in UNTHROTTLED and ": ".join(each) not in UNTHROTTLED] == []
