"""What fuzzing found is tried again; ``make fuzz`` looks for more, and ``make test-full`` for a minute each."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.corpus import CORPORA, keep, kept
from tests.fuzz.targets import ROOT, TARGETS, seeds
from tests.size import sample

SECONDS = 60


@pytest.mark.dear
@pytest.mark.parametrize("name", TARGETS)
def test_every_input_that_was_kept(name: str) -> None:
    inputs = [*seeds(name), *kept(name)]
    assert len(inputs) >= 10
    for each in sample(inputs) if name in ("server", "compiled_server") else inputs:
        TARGETS[name](each)


def test_each_corpus_has_a_target() -> None:
    assert {path.name for path in CORPORA.iterdir()} == {*TARGETS}


def test_what_does_no_more_than_something_shorter_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.corpus.CORPORA", tmp_path)
    monkeypatch.setattr("tests.fuzz.corpus.seeds", lambda _: [b""])
    first, second = b'\0{"size":7}\0payload', b'\0{"size":7}\0longer payload that does the same'
    keep("objects", [second, first, first, b""])
    assert kept("objects") == [first]


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="needs atheris, as `make fuzz` does")
@pytest.mark.parametrize("name", TARGETS)
def test_a_minute_more(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fuzz", name, "--seconds", str(SECONDS), "--faults", str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
