"""Clients that say they are somebody: the journal says that they said so, not that they are."""

from __future__ import annotations

import json
import shutil
import socket
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.client.business import BusinessClient
from bussrv.client.objects import BusError, ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.journal.reading import read_journal
from bussrv.journal.segment import list_segments
from bussrv.journal.verify import verify
from bussrv.policy.logins.users import user_line
from tests.docs.golden import OLDER, SECOND_KEY, private_pem
from tests.forked import ForkedServer


def test_a_name_that_is_claimed_is_no_actor_on_any_format(tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal") as server:
        with ObjectsClient(port=server.port("objects")) as member, BusinessClient(port=server.port("business")) as old:
            member.subscribe(user="ann", secret="s3cret")
            member.register("tv")
            old.register(user="ann", token="s3cret")
        assert server.stop() == 0
    said = [record.event for record in read_journal(tmp_path / "journal") if record.event.session is not None]
    assert not any(each.actor for each in said)
    assert {each.protocol for each in said if each.claimed == "ann"} == {"objects", "business"}


@pytest.mark.usefixtures("cheap_secrets")
def test_only_who_proves_to_be_a_user_is_one_on_any_format(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(user_line("ann", b"s3cret") + "\n")
    users.chmod(0o600)
    with ForkedServer(tmp_path / "journal", ("--auth", f"users:{users}")) as server:
        for secret in ("guess", "s3cret"):
            with (
                ObjectsClient(port=server.port("objects")) as member,
                BusinessClient(port=server.port("business")) as old,
                SppClient(port=server.port("spp")) as watcher,
            ):
                for login, refusal in (
                    (partial(member.subscribe, user="ann", secret=secret), BusError),
                    (partial(old.register, user="ann", secret=secret), BusError),
                    (partial(watcher.authenticate, "ann", secret), PermissionError),
                ):
                    with nullcontext() if secret == "s3cret" else pytest.raises(refusal):
                        login()
        assert server.stop() == 0
    events = [record.event for record in read_journal(tmp_path / "journal")]
    said = [each for each in events if each.actor or each.claimed]
    proved = {each.session for each in said if isinstance(each, ev.AuthSucceeded)}
    failed = [each for each in said if isinstance(each, ev.AuthFailed)]
    assert len(proved) == len(failed) == 3
    assert {each.protocol for each in failed} == {"objects", "business", "spp"}
    assert all((each.actor, each.claimed) == ("ann", None) for each in said if each.session in proved)
    assert all((each.actor, each.claimed) == (None, "ann") for each in said if each.session not in proved)


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
    assert {each["v"] for each in (header, snapshot, *lines)} == {4}
    sessions = {each["protocol"]: (each["actor"], each["claimed"]) for each in snapshot["state"]["sessions"]}
    assert sessions == {"objects": (None, "anna"), "spp": ("ben", None), "inbus": (None, None)}
    assert verify(journal).faults == []
