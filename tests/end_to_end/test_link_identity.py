"""Two servers over TLS: each proves who it is, as the page on links says, and each is judged by its own policy."""

from __future__ import annotations

import re
from pathlib import Path

from bussrv import events as ev
from bussrv.client.objects import ObjectsClient
from bussrv.client.tls import Tls
from bussrv.policy.logins.tokens import add_token
from bussrv.testing.server import RunningServer
from tests.docs.pages import blocks
from tests.docs.test_how_to import commands, run
from tests.end_to_end.journals import events_of
from tests.forked import ForkedServer
from tests.net.tls.tls_clients import Place

PAGE = "docs/how-to/link-servers.md"
CLIENTS = """
[[rule]]
users = ["ann"]
provide = ["*"]
publish = ["*"]
request = ["*"]
send = ["*"]
address = ["*"]
observe = ["*"]
watch = ["*"]
"""
BY_NAME = """
[[rule]]
users = ["localhost"]
link = ["hall"]
tell = ["*"]
provide = ["*"]
send = ["*"]
address = ["*"]
observe = ["*"]
watch = ["*"]
"""


def await_line(server: RunningServer, pattern: str) -> None:
    while not any(re.search(pattern, line) for line in server.lines):
        server.next_line()


def test_each_proves_who_it_is_and_tells_what_it_may(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (_, ((command, _),)), (rules,) = (list(map(commands, blocks(PAGE, "console"))), blocks(PAGE, "toml"))
    run(command, tmp_path)
    tokens = {name: add_token(tmp_path / f"{name}-tokens", "ann", None) for name in ("hall", "attic")}
    assert 'tell = ["*"]' in rules
    for name, text in (("hall", rules.replace('tell = ["*"]', 'tell = ["attic-*"]')), ("attic", BY_NAME)):
        (tmp_path / f"{name}.toml").write_text(CLIENTS + text)

    def options(name: str) -> list[str]:
        checkers = ["--auth", f"tokens:{tmp_path / f'{name}-tokens'}", "--policy", str(tmp_path / f"{name}.toml")]
        return ["--server-id", name, "--objects", place.port, *checkers]

    ca = place.authority.file
    with ForkedServer(tmp_path / "hall", options("hall")) as hall:
        here = f"tls:127.0.0.1:{hall.port('objects')}:serverName=localhost:trustRoots={ca}"
        link = f"{here}:tokenFile={tmp_path / 'attic.token'}"
        with ForkedServer(tmp_path / "attic", [*options("attic"), "--link", link]) as attic:
            await_line(attic, "link to hall at .* is up")
            tls = Tls(ca=ca, server_name="localhost")
            with (
                ObjectsClient("127.0.0.1", hall.port("objects"), tls=tls) as near,
                ObjectsClient("127.0.0.1", attic.port("objects"), tls=tls) as far,
                ObjectsClient("127.0.0.1", attic.port("objects"), tls=tls) as boss,
            ):
                near.subscribe(receive_mode="no_echo", token=tokens["hall"])
                far.subscribe(receive_mode="no_echo", token=tokens["attic"], **{"routing-id": "attic-ann"})
                boss.subscribe(receive_mode="no_echo", token=tokens["attic"], **{"routing-id": "boss"})
                far.register("attic/lamp")
                boss.register("bank")
                boss.send({"type": "text/plain", "id": "forged"}, b"from the boss")
                far.send({"type": "text/plain", "id": "last"}, b"hello")
                got = near.wait_for(lambda each: each.metadata.get("id") in ("forged", "last"))
                assert (got.metadata["id"], got.metadata["route"]) == ("last", ["attic-ann", "attic", "hall"])
                near.send({"type": "text/plain", "to": "attic-ann", "id": "back"}, b"hello, too")
                assert far.wait_for(lambda each: each.metadata.get("id") == "back").payload == b"hello, too"
            assert attic.stop() == 0
        assert hall.stop() == 0
    (linked,) = [each for each in events_of(tmp_path / "hall", ev.AuthSucceeded) if each.actor == "attic"]
    (dialed,) = [each for each in events_of(tmp_path / "attic", ev.AuthSucceeded) if each.actor == "localhost"]
    assert (linked.method, dialed.method) == ("token", "certificate")
    denied = {(each.actor, each.action, each.target) for each in events_of(tmp_path / "hall", ev.AccessDenied)}
    assert denied == {("attic", "tell", "boss")}
    secrets = [*tokens.values(), (tmp_path / "attic.token").read_text().strip()]
    for server in (hall, attic):
        assert not any(secret in line for secret in secrets for line in server.lines)
