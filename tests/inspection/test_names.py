"""``tail`` and ``state`` with ``--pseudonyms``: who has the key file sees who it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.journal.pseudonym_keys import forget
from bussrv.journal.pseudonyms import Pseudonyms
from bussrv.journal.record import Record
from tests.inspection.shell import Shell
from tests.inspection.test_reading import write

EVENTS = [
    ev.SessionOpened(session="s", routing_id="r", protocol="spp", peer="10.0.0.7:50123"),
    ev.SessionIdentified(session="s", routing_id="r", actor="ann", peer="10.0.0.7:50123"),
    ev.ServerStopped(),
]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """What ann did, written with pseudonyms."""
    pseudonyms = Pseudonyms(tmp_path / "keys")
    events = [pseudonyms.hide(event) for event in EVENTS]
    pseudonyms.flush()
    pseudonyms.close()
    write(tmp_path / "journal", [Record(seq, seq, seq, "hall", "boot", event) for seq, event in enumerate(events, 1)])
    return tmp_path / "journal"


def test_the_last_records(shell: Shell, journal: Path) -> None:
    hidden = shell.run("tail", journal)[1]
    assert "ann" not in hidden
    assert "10.0.0.7" not in hidden
    status, said, _ = shell.run("tail", journal, "--pseudonyms", journal.parent / "keys")
    assert (status, said.count("peer=10.0.0.7:50123"), said.count("actor=ann")) == (0, 2, 1)
    assert said.splitlines()[2] == hidden.splitlines()[2]


def test_the_registry(shell: Shell, journal: Path) -> None:
    (hidden,) = json.loads(shell.run("state", journal, "--json")[1])["sessions"]
    assert hidden["actor"].startswith("~")
    (found,) = json.loads(shell.run("state", journal, "--json", "--pseudonyms", journal.parent / "keys")[1])["sessions"]
    assert found == {**hidden, "actor": "ann", "peer": "10.0.0.7:50123"}


def test_who_is_forgotten_stays_hidden(shell: Shell, journal: Path) -> None:
    forget(journal.parent / "keys", "actor", "ann")
    said = shell.run("tail", journal, "--pseudonyms", journal.parent / "keys")[1]
    assert "actor=~" in said
    assert said.count("peer=10.0.0.7:50123") == 2


def test_no_such_key_file(shell: Shell, journal: Path) -> None:
    for command in ("tail", "state"):
        status, said, complained = shell.run(command, journal, "--pseudonyms", journal.parent / "nothing")
        assert (status, said, complained.count("\n")) == (2, "", 1)
        assert "cannot read the key file" in complained
    assert "not allowed with" in shell.wrong("tail", journal, "--json", "--pseudonyms", journal.parent / "keys")
