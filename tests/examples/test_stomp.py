"""The package of the tutorial: its tests pass, it is as small as the page says, and the kit finds a known fault."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bussrv.plugin import WireFormat
from bussrv.testing.conformance.judging import PROMISES, judge_one
from tests.size import FULL
from tests.testing.conformance import lines

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples/stomp"
MOST_LINES = 250


def test_the_package_has_at_most_250_lines() -> None:
    files = [*PACKAGE.glob("bussrv_stomp/*.py"), *PACKAGE.glob("twisted/**/*.py")]
    assert len(files) == 5
    assert sum(len(each.read_text("utf-8").splitlines()) for each in files) <= MOST_LINES


@pytest.mark.processes
def test_its_own_tests_pass_with_the_kit_and_stomp_py() -> None:
    """Without the promises that take further processes, unless there is time for them."""
    some = [] if FULL else ["-k", "not a-kill and not a-signal"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        os.devnull,
        "--rootdir",
        str(PACKAGE),
        "-p",
        "no:cacheprovider",
    ]
    ran = subprocess.run(
        [*command, "-p", "bussrv.testing.pytest_plugin", *some, str(PACKAGE / "tests")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (PACKAGE, ROOT)))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    last = ran.stdout.strip().splitlines()[-1]
    assert ran.returncode == 0, ran.stdout[-3000:]
    assert int(last.split(" passed")[0].split()[-1]) > 40
    assert " skipped" in last


class Hidden:
    """The reader of a plugin that passed all tests of its author: it keeps what came in a place of its own."""

    def __init__(self, reader: Any) -> None:
        self._reader, self._kept = reader, b""

    def feed(self, data: bytes) -> None:
        self._kept += data

    def next_event(self) -> Any:
        end = self._kept.find(b"\0")
        if end < 0:
            return None
        frame, self._kept = self._kept[: end + 1], self._kept[end + 1 :]
        self._reader.feed(frame)
        return self._reader.next_event()

    def __len__(self) -> int:
        return 0

    def clear(self) -> None:
        self._kept = b""


@pytest.mark.parametrize("name", ["unfinished-input-is-limited", "strangers-send-little"])
def test_the_kit_finds_input_that_nobody_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PACKAGE))
    from bussrv_stomp import protocol
    from bussrv_stomp.adapter import StompAdapter

    stomp: Any = WireFormat("stomp", module="bussrv_stomp.protocol.StompProtocol", default_endpoint="off", summary="-")

    class Careless(protocol.StompProtocol):
        def make_reader(self) -> Any:
            return Hidden(super().make_reader())

    (promise,) = (each for each in PROMISES if each.name == name)
    for kind, outcome in ((protocol.StompProtocol, "kept"), (Careless, "broken")):
        monkeypatch.setattr(protocol, "StompProtocol", kind)
        found = judge_one(promise, StompAdapter(), lambda each: stomp if each == "stomp" else lines.installed(each))
        assert found.outcome == outcome, found.sentence
