"""The page with the incident: it is played, and its ten commands say what the page has, except times, ports and ids."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bussrv.policy.logins.users import SecretHash
from bussrv.testing.server import RunningServer
from examples.incident import __main__ as incident
from examples.incident import office
from examples.incident.questions import HEALTH, LOOK
from tests.docs.pages import blocks
from tests.forked import ForkedServer

PAGE = "docs/tutorial/incident.md"
STRANGER = "127.0.0.66"
_CHANGES = re.compile(
    r"\b[0-9a-f]{24}\b|\b[0-9a-f]{12}(?:\.\d+)?\b|\d{4}-\d\d-\d\d[T ][\d:.]+Z?"
    r"|[-+]?\d[\d.]*(?: ?(?:ms|s|min|h|m|kB|MB|B)\b)?"
)


def without_numbers(text: str) -> str:
    """What is the same each time: no ids, times, durations and ports; columns may be of another width."""
    text = text.replace(STRANGER, "stranger")
    return re.sub(r"(?:# ?)+", "# ", re.sub(r" +", " ", _CHANGES.sub("#", text))).strip()


def questions(text: str) -> dict[str, str]:
    """The commands in a text, and what they say. A sentence in a paragraph of its own ends it."""
    found = re.findall(r"^\$ (bussrv .*?)\n(.*?)(?=\n\n[A-Z][^\n]*[?:.]\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return {without_numbers(command): without_numbers(said) for command, said in found}


def play(
    arguments: list[str], start: Callable[..., RunningServer], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incident, "mkdtemp", lambda **_: str(place))
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_CONFIG_HOME", "")
    assert incident.main(arguments, start) == 0


def told() -> tuple[str, dict[str, str]]:
    """How the page begins, and its ten questions."""
    intro, *answers = blocks(PAGE, "console")
    return intro.partition("\n")[2], questions("\n\nNext:\n".join(answers))


@pytest.mark.processes
def test_the_questions_are_answered_in_a_hurry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(office, "hash_secret", SecretHash(b"salt", bytes(32), 2, 1, 1).made_of)
    play(["--quick"], ForkedServer, tmp_path, monkeypatch)
    shown = capsys.readouterr().out
    intro, wanted = told()
    assert without_numbers(intro) in without_numbers(shown)
    said = questions(shown)
    assert list(said) == list(wanted)
    assert len(wanted) == 10
    for lasting in (HEALTH, LOOK):
        del said[f"bussrv {lasting.command}"], wanted[f"bussrv {lasting.command}"]
    assert said == wanted


@pytest.mark.long
@pytest.mark.processes
def test_the_incident_is_played_as_the_page_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play([], RunningServer, tmp_path, monkeypatch)
    assert questions(capsys.readouterr().out) == told()[1]
