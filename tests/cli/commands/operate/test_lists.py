"""The lists of a running server."""

from __future__ import annotations

import json

import pytest

from bussrv.cli.admin_client import AdminClient
from bussrv.client.objects import ObjectsClient
from tests.cli.asked import records
from tests.cli.conftest import Place, run

pytestmark = pytest.mark.processes


def test_lists(place: Place, lamp: ObjectsClient) -> None:
    (found,) = records("services", "--where", "service=hall/*")
    assert (found["service"], found["providers"], found["subscribers"]) == ("hall/lamp 1", 1, 1)
    status, said, _ = run("services", "--where", "service=hall/*")
    heading, row = said.splitlines()
    assert (status, heading.split()[:3]) == (0, ["SERVICE", "PROVIDERS", "SUBSCRIBERS"])
    assert row.split() == ["hall/lamp", "1", "1", "1", "objects", "spp"]
    assert len(records("sessions", "--limit", "2")) == 2
    assert run("links") == (0, "none\n", "")
    assert run("services", "--where", "nonsense")[0] == 2
    assert "there is no parameter 'nonsense'" in run("services", "--where", "nonsense=1")[2]


def test_who_is_of_every_wire_format(place: Place, lamp: ObjectsClient) -> None:
    status, said, _ = run("who", "hall/lamp 1")
    provider, subscriber = said.split("\n\n")
    assert (status, provider.splitlines()[0], subscriber.splitlines()[0]) == (0, "1 provider", "1 subscriber")
    assert str(lamp.routing_id) in provider
    assert " spp " in subscriber
    asked = f"127.0.0.1:{place.server.port('admin')}"
    but = "(members of the object network that receive everything, such as bussrv sub, are not shown)"
    complaint = (
        f"bussrv who: nobody provides 'not/there\\x1b', is subscribed to it, or is called so; asked {asked} {but}\n"
    )
    assert run("who", "not/there\x1b") == (1, "", complaint)
    for command in ("who", "close", "session"):
        status, said, complaint = run(command, 300 * "x")
        assert (status, said) == (2, "")
        assert complaint.startswith(f"bussrv {command}: ")
        assert "called: 300 characters are too many, at most 255 are taken" in complaint


def test_links_say_which_server_dialed_and_which_never_linked(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = "2026-11-21T14:02:03.000000Z"
    lost = {"state": "down", "lost": moment}
    found = [
        {**lost, "routing_id": "attic", "address": "", "dialed": False, "reason": None},
        {**lost, "routing_id": "shed", "address": "10.0.0.9:1", "dialed": False, "reason": "server-stopped"},
        {"routing_id": "yard", "address": "10.0.0.8:1", "dialed": True, "state": "up", "since": moment},
        {"routing_id": None, "address": "tcp:barn:1", "dialed": True, "state": "dialing"},
    ]
    monkeypatch.setattr(AdminClient, "items", lambda *arguments, **query: iter(found))
    heading, *rows = run("links")[1].splitlines()
    columns = {name: heading.index(name) for name in ("DIALED", "LOST", "REASON")}
    shown = [{name: row[at:].split("  ")[0].strip() for name, at in columns.items()} for row in rows]
    assert [each["DIALED"] for each in shown] == ["-", "by the other one", "by this server", "by this server"]
    assert [each["LOST"] == "-" for each in shown] == [True, False, True, True]
    assert [each["REASON"] for each in shown] == ["never linked", "server-stopped", "-", "-"]


def test_servers_are_listed_with_what_is_amiss(place: Place) -> None:
    lines = run("servers")[1].splitlines()
    assert lines[0].split()[:3] == ["SERVER", "STATUS", "VERSION"]
    assert len(lines) == 2
    net = json.loads(run("top", "--all", "--count", "1", "--json")[1])
    assert [each["source"] for each in net["servers"]] == ["here"]
    assert run("top", "--all", "--count", "1")[1].startswith("servers=1 ready=")
