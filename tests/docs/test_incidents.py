"""The page on incidents: its commands are run at a server that has one, and its options are read."""

from __future__ import annotations

import shlex
import socket
from pathlib import Path

import pytest
import tomli

from bussrv.admin.incidents.known import Known
from bussrv.admin.incidents.view import item
from bussrv.cli.commands.operate.incidents import lines
from bussrv.incidents.judging import RULES, Incident
from bussrv.incidents.vocabulary import LOGIN
from bussrv.journal.record import parse_time
from bussrv.server.configuration.option_table import BUILT_IN
from tests.docs.commands import says
from tests.docs.pages import blocks, rows
from tests.docs.test_how_to import run
from tests.forked import ForkedServer

PAGE = "docs/how-to/incidents.md"


@pytest.mark.processes
def test_the_commands_are_run_at_a_server_with_an_incident(tmp_path: Path) -> None:
    before, note = blocks(PAGE, "console")
    command, _, wanted = before.removeprefix("$ ").partition("\n")
    with ForkedServer(tmp_path / "bussrv-journal", ["--server-id", "hall"]) as server:
        asks = f"--server 127.0.0.1:{server.port('admin')}"
        assert says(run(f"{command} {asks}", tmp_path), wanted)
        where = ("127.0.0.1", server.port("objects"))
        for _ in range(12):
            with socket.create_connection(where) as client:
                client.sendall(b'{"type":"subscribe"}\0')
        found = ""
        while "in a reconnect storm" not in found:
            found = run(f"bussrv incidents {asks}", tmp_path)
        incident, weight, *_ = found.split()
        assert weight == "MINOR"
        words = shlex.split(note.removeprefix("$ "))
        words[words.index("--acknowledge") + 1] = incident
        run(shlex.join(words) + f" {asks}", tmp_path)
        assert run(f"{command} {asks}", tmp_path) == "nothing needs a look\n"
        assert "noted by admin-token" in run(f"bussrv incidents --all {asks}", tmp_path)
        assert server.stop() == 0
    told = run("bussrv journal tail bussrv-journal --event incident.acknowledged", tmp_path)
    assert f"incident={incident}" in told


def test_an_incident_is_shown_as_the_page_shows_it() -> None:
    (shown,) = blocks(PAGE, "text")
    begin, end = (parse_time(f"2026-11-28T12:05:{each}Z") for each in ("27.332877", "36.097244"))
    about = {"address": "192.0.2.7", "claimed": "ann", "kinds": (LOGIN,), "number": 14, "begin": begin, "end": end}
    found = item(Known("1c955855516e", Incident(what="address", **about)))
    assert [*lines({name: getattr(found, name) for name in found.__struct_fields__})] == shown.splitlines()


def test_the_page_has_every_kind_and_the_options_are_read() -> None:
    (text,) = blocks(PAGE, "toml")
    kinds = {row.name: row.kind for row in BUILT_IN}
    for name, value in tomli.loads(text).items():
        assert kinds[name].check(value)
    listed = {row[0].strip("`") for row in rows(PAGE)}
    assert {*RULES, "logins"} <= listed
