"""Clients that say they are somebody: the journal says that they said so, not that they are."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.client.business import BusinessClient
from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.formats.spp_users import user_line
from bussrv.journal.reading import read_journal
from bussrv.journal.segment import list_segments
from bussrv.journal.verify import verify
from tests.docs.golden import OLDER, SECOND_KEY, private_pem
from tests.forked import ForkedServer


def test_a_name_that_is_claimed_is_no_actor_on_any_format(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(user_line("ann", b"s3cret") + "\n")
    users.chmod(0o600)
    with ForkedServer(tmp_path / "journal", ("--spp-users", str(users))) as server:
        with (
            ObjectsClient(port=server.port("objects")) as member,
            BusinessClient(port=server.port("business")) as old,
            SppClient(port=server.port("spp")) as guesser,
            SppClient(port=server.port("spp")) as ann,
        ):
            member.subscribe(user="ann")
            member.register("tv")
            old.register(user="ann")
            with pytest.raises(PermissionError):
                guesser.authenticate("ann", "guess")
            ann.authenticate("ann", "s3cret")
            ann.subscribe("tv")
        assert server.stop() == 0
    events = [record.event for record in read_journal(tmp_path / "journal")]
    said = [each for each in events if each.actor or each.claimed]
    proved = {each.session for each in said if isinstance(each, ev.AuthSucceeded)}
    assert len(proved) == 1
    assert all((each.actor, each.claimed) == ("ann", None) for each in said if each.session in proved)
    assert all((each.actor, each.claimed) == (None, "ann") for each in said if each.session not in proved)
    assert {each.protocol for each in said if each.claimed} == {"objects", "business", "spp"}
    wanted = {ev.AuthSucceeded, ev.SubscriptionAdded, ev.SessionClosed}
    assert {type(each) for each in said if each.session in proved} == wanted


def test_a_server_goes_on_in_a_journal_of_schema_version_2(tmp_path: Path) -> None:
    journal = shutil.copytree(OLDER / "v2" / "crashed", tmp_path / "journal")
    key = tmp_path / "hall.key"
    key.write_bytes(private_pem(SECOND_KEY))
    key.chmod(0o600)
    with ForkedServer(journal, ("--journal-key", str(key))) as server:
        with socket.create_connection(("127.0.0.1", server.port("objects"))) as client:
            client.sendall(b'{"event":"routing/subscribe","id":1,"user":"anna"}\0')
            assert b"routing/subscribe/reply" in client.recv(4096)
        assert server.stop() == 0
    *older, newest = list_segments(journal)
    for path in older:
        assert path.read_bytes() == (OLDER / "v2" / "crashed" / path.name).read_bytes()
    header, snapshot, *lines = map(json.loads, newest.read_bytes().splitlines())
    assert {each["v"] for each in (header, snapshot, *lines)} == {3}
    sessions = {each["protocol"]: (each["actor"], each["claimed"]) for each in snapshot["state"]["sessions"]}
    assert sessions == {"objects": (None, "anna"), "spp": ("ben", None), "inbus": (None, None)}
    assert verify(journal).faults == []
