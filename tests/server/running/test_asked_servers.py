"""Other servers are asked with a token that never crosses the network in the clear."""

from __future__ import annotations

import http.client
import json
import time
from pathlib import Path
from typing import Any

import pytest

from bussrv.errors import BadValue, ConfigError
from bussrv.policy.logins.tokens import add_token
from bussrv.server.configuration.option_kinds import AdminUrl
from bussrv.server.running.admin import asked_servers
from tests.forked import ForkedServer
from tests.net.tls.tls_clients import Place
from tests.server.configs import configured
from tests.tables import each_row


@each_row(
    "url",
    ["attic", "ftp://attic", "https://", "https://attic:0", "https://attic:x", "https://joe:x@attic", "https://a?b=c"],
)
def test_what_is_no_url_of_an_admin_interface_is_refused(url: str) -> None:
    with pytest.raises(BadValue):
        AdminUrl().check(url)


def test_a_token_needs_tls_or_this_machine(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("secret\n")
    given: dict[str, Any] = {"admin-peer": ["https://attic:7280/bus/", "http://127.0.0.1:7281"]}
    (attic, here) = asked_servers(configured({**given, "admin-peer-token-file": str(token)}))
    assert (attic.url, attic.token, here.token) == ("https://attic:7280/bus", "secret", "secret")
    clear = configured({"admin-peer": ["http://attic:7280"], "admin-peer-token-file": str(token)})
    with pytest.raises(ConfigError, match="--admin-peer: http://attic:7280: the token would cross the network"):
        asked_servers(clear)
    assert asked_servers(configured({"admin-peer": ["http://attic:7280"]}))[0].token is None


@each_row("option", ["admin-peer-token-file", "admin-peer-ca"])
def test_a_file_that_cannot_be_read_is_named(option: str) -> None:
    with pytest.raises(ConfigError, match=f"--{option}: "):
        asked_servers(configured({"admin-peer": ["https://attic"], option: "/nowhere/file"}))
    assert asked_servers(configured({option: "/nowhere/file"})) == []


@pytest.mark.processes
def test_two_servers_show_each_other_over_tls(tmp_path: Path) -> None:
    place, secret = Place(tmp_path), add_token(tmp_path / "tokens", "hall", None)
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(f"{secret}\n")
    attic = ["--server-id", "attic", "--admin", place.port, "--auth", f"tokens:{tmp_path / 'tokens'}"]
    with ForkedServer("off", attic) as asked:
        url = f"https://localhost:{asked.port('admin')}"
        options = ["--admin-peer", url, "--admin-peer-token-file", str(token)]
        with ForkedServer("off", [*options, "--admin-peer-ca", str(place.authority.file)]) as server:
            assert shown(server, url)["server"] == "attic"
        with ForkedServer("off", options) as server:
            assert shown(server, url)["problem"].startswith("its certificate is not accepted: ")


def shown(server: ForkedServer, url: str) -> Any:
    """What a server shows of another one, as soon as that was asked."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        connection = http.client.HTTPConnection(*server.addresses["admin"], timeout=30)
        connection.request("GET", "/api/v1/servers?source=peer")
        (found,) = json.loads(connection.getresponse().read())["items"]
        if found["status"] != "not-asked":
            return found
    raise AssertionError(f"{url} was not asked")
