"""``bussrv session``: one session, as people and programs read it."""

from __future__ import annotations

import re

import pytest

from bussrv.client.objects import ObjectsClient
from tests.cli.asked import records, session_of
from tests.cli.conftest import Place, run

pytestmark = pytest.mark.processes


def test_names_of_strangers_do_not_steer_the_terminal(place: Place, lamp: ObjectsClient) -> None:
    for words in (["sessions"], ["session", session_of(lamp)], ["session", session_of(lamp), "--history"]):
        status, said, _ = run(*words)
        assert status == 0
        assert "eve" in said
        assert all(line.isprintable() for line in said.splitlines())
        assert all(line.isprintable() for line in run(*words, "--json")[1].splitlines())


def test_people_get_ages_and_words_and_programs_get_values(place: Place, lamp: ObjectsClient) -> None:
    shown = run("session", session_of(lamp))[1]
    assert re.search(r"persistent +no\n", shown)
    assert re.search(r"opened +2\d{3}-\S+Z \(\d+ (s|min) ago\)", shown)
    assert re.search(r" \d+ (s|min) ", run("sessions")[1])
    (found,) = records("session", session_of(lamp))
    assert found["persistent"] is False
    assert str(found["opened"]).endswith("Z")
    provider = run("who", "hall/lamp 1")[1].splitlines()[1:3]
    assert provider[0].split()[:5] == ["CLIENT", "SESSION", "FORMAT", "PEER", "HOME"]
    assert " (claimed) " in provider[1]
    assert "127.0.0.1:" in provider[1]
