"""Who is answered, what is written, and in which order: guards, identity, permission, journal."""

from __future__ import annotations

import re
from base64 import b64encode
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.admin.http.answers import PROBLEMS
from bussrv.admin.http.routes import Route
from bussrv.admin.table import ROUTES
from bussrv.policy.permissions.file import parse_policy
from tests.admin.scene import BEARER, Admin, Answer
from tests.logins import USERS, identity_of

LOCAL = {"Host": "localhost"}


def basic(user: str, secret: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{user}:{secret}".encode()).decode()}


# Guards.

HOSTS = {
    "localhost": 200,
    "LocalHost:7280": 200,
    "localhost.": 200,
    "127.0.0.1:7280": 200,
    "[::1]:7280": 200,
    "192.168.7.1": 200,
    "hall.example": 200,
    "HALL.example:443": 200,
    "evil.example": 421,
    "localhost.evil.example": 421,
    "127.0.0.1.evil.example": 421,
    "": 421,
    "hall.example@evil.example": 421,
    "[::1].evil.example": 421,
    "[::1]evil.example": 421,
    "[::1": 421,
    "[localhost]": 421,
    "[127.0.0.1]": 421,
    "localhost:80:evil": 421,
    "localhost:evil": 421,
    "localhost:80/x": 421,
    "localhost\t.evil.example": 421,
    "127.0.0.1:80:90": 421,
    "::1": 421,
    "127.0.0.1,evil.example": 421,
}


@pytest.mark.parametrize("host", HOSTS)
def test_only_names_of_the_server_are_answered(host: str) -> None:
    scene = Admin()
    scene.site.use(hosts=["Hall.example"], audit_summary=None)
    answer = scene.client().ask("/api/v1/server", Host=host)
    assert (answer.status, answer.code) == (HOSTS[host], "" if HOSTS[host] == 200 else "bad-host")
    assert answer.phrase == ("OK" if HOSTS[host] == 200 else "Misdirected Request")


def test_the_host_of_an_absolute_target_counts() -> None:
    client = Admin().client()
    for target, status in {
        "http://localhost:7280/api/v1/server": 200,
        "HTTPS://127.0.0.1/healthz?": 200,
        "http://localhost": 200,
        "http://localhost?x=1": 400,
        "http://evil.example/api/v1/server": 421,
        "http://localhost@evil.example/": 421,
        "http:///api/v1/server": 421,
        "ftp://localhost/": 404,
    }.items():
        for host in ("localhost", "evil.example"):
            answer = client.ask(target, Host=host)
            assert answer.status == (421 if (target, host) == ("ftp://localhost/", "evil.example") else status), target


TWICE = {
    "Host: localhost": 421,
    "Origin: http://localhost": 403,
    "Sec-Fetch-Site: same-origin": 403,
    "Content-Type: application/json": 415,
}


@pytest.mark.parametrize("header", TWICE)
def test_a_header_that_says_the_origin_is_there_once(header: str) -> None:
    client = Admin().client()
    head = "GET /healthz HTTP/1.1\r\n" + ("" if header.startswith("Host") else "Host: localhost\r\n")
    client.send(f"{head}{header}\r\n{header}\r\n\r\n".encode())
    assert client.said().startswith(f"HTTP/1.1 {TWICE[header]} ".encode())


@pytest.mark.parametrize("name", ["Host", "Origin", "Sec-Fetch-Site", "Content-Type", "Authorization", "Accept"])
def test_headers_of_any_bytes_are_refused_at_a_limited_rate(name: str) -> None:
    scene = Admin(admin_max_rate=1)
    other = b"" if name == "Host" else b"Host: evil.example\r\n"
    said = []
    for _ in range(4):
        client = scene.client()
        client.send(b"GET /healthz HTTP/1.1\r\n%b%b: \xff\r\n\r\n" % (other, name.encode()))
        said.append(client.said()[9:12])
    assert said == [b"421", b"421", b"429", b"429"]


@pytest.mark.parametrize("name", ["Origin", "Sec-Fetch-Site", "Authorization", "Accept", "If-None-Match", "X-Other"])
@pytest.mark.parametrize("path", ["/healthz", "/api/v1/sessions", "/metrics"])
def test_headers_of_any_bytes_break_nothing(path: str, name: str) -> None:
    client = Admin().client()
    client.send(b"GET %b HTTP/1.1\r\nHost: localhost\r\n%b: \xff\r\n\r\n" % (path.encode(), name.encode()))
    assert int(client.said()[9:12]) < 500


def test_only_old_clients_may_leave_out_the_host() -> None:
    scene = Admin()
    assert scene.client().ask("/api/v1/server", Host=None).code == "bad-host"
    client = scene.client()
    client.send(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert client.said().startswith(b"HTTP/1.1 200 ")


ORIGINS = {
    "http://localhost": 200,
    "https://localhost": 200,
    "http://localhost:7280": 403,
    "http://evil.example": 403,
    "null": 403,
    "file://localhost": 403,
    "http://localhost.evil.example": 403,
    "": 403,
}


@pytest.mark.parametrize("origin", ORIGINS)
def test_pages_of_other_hosts_are_not_answered(origin: str) -> None:
    answer = Admin().client().ask("/api/v1/server", Origin=origin)
    assert answer.status == ORIGINS[origin]
    assert "Access-Control-Allow-Origin" not in answer.headers


def path_of(row: Route) -> str:
    return re.sub(r"\{\w+(\.\.\.)?\}", "x", row.path)


@pytest.mark.dear
def test_pages_of_other_sites_reach_nothing_but_the_page_itself() -> None:
    for row in ROUTES:
        for site, is_own in {
            "none": True,
            "same-origin": True,
            "same-site": False,
            "cross-site": False,
            "": False,
        }.items():
            scene = Admin()
            client = scene.client()
            answer = client.ask(path_of(row), row.method, Sec_Fetch_Site=site, **BEARER)
            is_page = row.path in ("/", "/static/{file...}")
            assert (answer.code == "bad-origin") == (not is_own and not is_page), (row.path, site)
            if not is_own:
                scene.pass_time(1)
                assert scene.events(ev.AdminAction) == []
                assert len(scene.site.streams) == 0
            # Streams end here, and not when their memory is collected, in the middle of another test.
            client.transport.loseConnection()
            scene.pass_time(1)


@pytest.mark.parametrize("row", [row for row in ROUTES if row.has_effects], ids=lambda row: row.path)
def test_a_page_cannot_cause_anything_without_asking_first(row: Any) -> None:
    scene = Admin()
    path = path_of(row)
    for kind in (None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert scene.client().ask(path, row.method, Content_Type=kind, **BEARER).code == "bad-content-type"
    assert scene.client().ask(path, "OPTIONS", Origin="http://evil.example").code == "bad-origin"
    assert scene.client().ask(path, "OPTIONS").code == "bad-method"
    assert scene.events(ev.AdminAction) == []
    assert len(scene.site.streams) == 0


def test_what_has_effects_is_guarded() -> None:
    assert {row.path for row in ROUTES if row.has_effects and row.method == "GET"} == {
        "/api/v1/events",
        "/api/v1/live",
        "/api/v1/tap",
    }


def test_every_answer_has_the_headers_that_guard_a_browser() -> None:
    client = Admin().client()
    for path in ("/", "/static/none", "/api/v1/server", "/api/v1/none", "/api/v1/sessions"):
        headers = client.ask(path).headers
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == ("no-cache" if path == "/" else "no-store")
        assert "Set-Cookie" not in headers
        assert headers["Date"] == "Tue, 14 Nov 2023 22:13:20 GMT"
    client.send(b"nonsense\r\n\r\n")
    assert Answer(client.said()).headers["Date"] == "Tue, 14 Nov 2023 22:13:20 GMT"


def test_an_answer_that_the_client_has_is_not_sent_again() -> None:
    client = Admin().client()
    for path in ("/", "/api/v1/sessions"):
        tag = client.ask(path).headers["ETag"]
        for known in (tag, f"W/{tag}", f'"x", {tag}', "*", " * "):
            answer = client.ask(path, If_None_Match=known)
            assert (answer.status, answer.body, answer.headers["ETag"]) == (304, b"", tag), known
        for known in ('"x"', tag[1:-1], tag[:-2] + '"', f'"x{tag}"'):
            assert client.ask(path, If_None_Match=known).status == 200, known
    assert client.ask("/api/v1/server", If_None_Match="*").status == 304
    assert client.ask("/api/v1/services/none", If_None_Match="*").code == "no-such-service"
    assert client.ask("/api/v1/log-level", "PUT", b'{"level":"warn"}', If_None_Match="*", **BEARER).status == 200


# Identity and permission.

RULES = """
[[rule]]
users = ["ann"]
admin = "write"

[[rule]]
users = ["ben"]
admin = "read"

[[rule]]
users = ["eve", "anonymous"]
watch = ["*"]
"""

READ, WRITE = ("/api/v1/server", "GET"), ("/api/v1/drain", "POST")


def scene_with(*, users: bool, policy: bool, rules: str = RULES, **settings: Any) -> Admin:
    scene = Admin(**settings)
    if users:
        hashed = USERS["ann"]
        scene.bus.identity._checkers = identity_of(
            dict.fromkeys(("ann", "ben", "eve", "sam"), hashed), scene.reactor
        )._checkers
        scene.bus.identity._in_thread = identity_of({}, scene.reactor)._in_thread
        scene.bus.access.asks = True
    if policy:
        scene.bus.access.policy = parse_policy(rules, Path("policy.toml"), frozenset({"objects"}))
    return scene


CALLERS: list[tuple[dict[str, Any], str, dict[str, str], int, int]] = [
    ({"users": False, "policy": False}, "nobody", {}, 200, 401),
    ({"users": False, "policy": False}, "the token", BEARER, 200, 200),
    ({"users": False, "policy": False}, "a guess", {"Authorization": "Bearer the-token-of-the-fil"}, 401, 401),
    ({"users": False, "policy": False}, "a user that nobody knows", basic("ann", "s3cret"), 401, 401),
    ({"users": False, "policy": False}, "nonsense", {"Authorization": "Digest x"}, 401, 401),
    ({"users": True, "policy": False}, "nobody", {}, 401, 401),
    ({"users": True, "policy": False}, "the token, which is of no use now", BEARER, 401, 401),
    ({"users": True, "policy": False}, "ann", basic("ann", "s3cret"), 200, 200),
    ({"users": True, "policy": False}, "ann with a wrong secret", basic("ann", "secret"), 401, 401),
    ({"users": True, "policy": True}, "nobody", {}, 401, 401),
    ({"users": True, "policy": True}, "who may write", basic("ann", "s3cret"), 200, 200),
    ({"users": True, "policy": True}, "who may read", basic("ben", "s3cret"), 200, 403),
    ({"users": True, "policy": True}, "who may neither", basic("eve", "s3cret"), 403, 403),
    ({"users": False, "policy": True}, "nobody, and the token", BEARER, 401, 401),
]


@pytest.mark.parametrize(("server", "who", "headers", "read", "write"), CALLERS, ids=lambda value: str(value)[:30])
def test_callers_may_what_they_may(
    server: dict[str, Any], who: str, headers: dict[str, str], read: int, write: int
) -> None:
    scene = scene_with(**server)
    assert scene.client().ask(*READ, **headers).status == read
    answer = scene.client().ask(*WRITE, **headers)
    assert answer.status == write
    scene.pass_time(1)
    assert ("drain" in scene.calls) == (write == 200)
    if answer.status == 401:
        assert answer.headers["WWW-Authenticate"] == 'Bearer, Basic realm="bussrv"'


STATISTICS_RULES = (
    RULES
    + """
[[rule]]
users = ["sam"]
watch = ["bus/statistics"]
"""
)

SCRAPES = [
    ({"users": False, "policy": False}, {}, "127.0.0.1", (), 200),
    ({"users": True, "policy": False}, {}, "127.0.0.1", (), 401),
    ({"users": True, "policy": False}, basic("ann", "s3cret"), "127.0.0.1", (), 200),
    ({"users": True, "policy": True}, {}, "127.0.0.1", (), 401),
    ({"users": True, "policy": True}, basic("ben", "s3cret"), "10.0.0.9", (), 200),
    ({"users": True, "policy": True}, basic("sam", "s3cret"), "10.0.0.9", (), 200),
    ({"users": True, "policy": True}, basic("eve", "s3cret"), "127.0.0.1", (), 403),
    ({"users": True, "policy": True}, {}, "127.0.0.1", ("127.0.0.1/32",), 200),
    ({"users": True, "policy": True}, {}, "127.0.0.2", ("127.0.0.1/32",), 401),
    ({"users": True, "policy": True}, {}, "10.0.0.9", ("127.0.0.1/32", "10.0.0.0/8"), 200),
]


@pytest.mark.parametrize(("server", "headers", "host", "allowed", "status"), SCRAPES, ids=lambda value: str(value)[:30])
def test_figures_are_for_those_who_may_watch_the_statistics(
    server: dict[str, Any], headers: dict[str, str], host: str, allowed: tuple[str, ...], status: int
) -> None:
    scene = scene_with(**server, rules=STATISTICS_RULES, admin_scrape_allow=tuple(map(ip_network, allowed)))
    for path in ("/metrics", "/readyz?strict=1", "/readyz"):
        # No port of the scene is open, so it is not ready.
        found = scene.client(host).ask(path, **headers).status
        assert found == (503 if path != "/metrics" and status == 200 else status), path
    assert scene.client(host).ask("/api/v1/server").status == (401 if server["users"] else 200)


def test_failed_logins_and_denials_are_journaled_without_secrets() -> None:
    scene = scene_with(users=True, policy=True)
    scene.client("10.0.0.9").ask(*READ, **basic("ann", "wr0ng"))
    scene.client("10.0.0.9").ask(*WRITE, **basic("ben", "s3cret"))
    (failed,) = scene.events(ev.AuthFailed)
    (denied,) = scene.events(ev.AccessDenied)
    assert (failed.protocol, failed.claimed, failed.peer) == ("admin", "ann", "10.0.0.9:50000")
    assert (denied.actor, denied.action, denied.target) == ("ben", "admin", "write")
    assert "wr0ng" not in repr(scene.journal.records)
    page = scene.client().ask("/api/v1/denied", **basic("ben", "s3cret")).json
    assert [each["event"] for each in page["items"]] == ["access.denied", "auth.failed"]


# Writes.


def test_an_action_is_journaled_before_it_is_done() -> None:
    scene = Admin()
    member = scene.member()
    session = scene.registry.state.owner(member.routing_id)
    scene.journal.hold()
    client = scene.client()
    client.send(
        f"DELETE /api/v1/sessions/{session} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Authorization: {BEARER['Authorization']}\r\n\r\n".encode()
    )
    assert client.said() == b""
    assert session in scene.registry.state.sessions
    scene.journal.release()
    scene.pass_time(1)
    assert client.said().startswith(b"HTTP/1.1 204")
    assert session not in scene.registry.state.sessions
    action, closed = scene.events(ev.AdminAction, ev.SessionClosed)
    assert (action.action, action.target, action.actor) == ("close-session", session, "admin-token")
    assert closed.reason == "closed-by-operator"
    assert member.heads()[-1]["reason"] == "closed-by-operator"


def test_nothing_is_done_that_cannot_be_journaled() -> None:
    scene = Admin()
    member = scene.member()
    session = scene.registry.state.owner(member.routing_id)
    scene.journal.fail("the disk is full")
    answer = scene.client().ask(f"/api/v1/sessions/{session}", "DELETE", **BEARER)
    assert answer.code == "journal-unavailable"
    assert scene.client().ask("/api/v1/drain", "POST", **BEARER).code == "journal-unavailable"
    scene.pass_time(1)
    assert session in scene.registry.state.sessions
    assert scene.calls == []


def test_a_lost_link_is_listed_until_it_is_back_or_forgotten() -> None:
    scene = Admin(expect_link=("attic",))
    client = scene.client()

    def listed() -> list[tuple[str, str, str | None]]:
        items = client.ask("/api/v1/links", **BEARER).json["items"]
        return [(each["routing_id"], each["state"], each["reason"]) for each in items]

    def forget(server_id: str) -> str | int:
        answer = client.ask(f"/api/v1/links/{server_id}", "DELETE", **BEARER)
        return answer.code or answer.status

    never_up = ("attic", "down", None)
    assert listed() == [never_up]
    server = scene.server("cellar/2")
    assert forget("cellar/2") == "link-wanted"
    server.connection.close()
    assert listed() == [never_up, ("cellar/2", "down", "connection-lost")]
    server = scene.server("cellar/2")
    assert listed() == [never_up, ("cellar/2", "up", None)]
    server.send({"event": "abboe/close/notify", "reason": "server-stopped"})
    server.connection.close()
    assert ("cellar/2", "down", "server-stopped") in listed()
    assert [forget(each) for each in ("attic", "none", "cellar/2", "cellar/2")] == [
        "link-wanted",
        "no-such-link",
        204,
        "no-such-link",
    ]
    assert listed() == [never_up]
    (action,) = scene.events(ev.AdminAction)
    assert (action.action, action.target) == ("forget-link", "cellar/2")
    server = scene.server("barn")
    server.connection.close()
    scene.journal.fail("the disk is full")
    assert forget("barn") == "journal-unavailable"
    assert ("barn", "down", "connection-lost") in listed()


def test_a_lease_is_dropped_and_its_session_ends_with_the_last() -> None:
    scene = Admin()
    for key in ("tv", "radio"):
        scene.udp.subscribe(key)
    (session,) = [each.id for each in scene.registry.state.sessions.values() if each.protocol == "inbus"]
    client = scene.client()
    assert client.ask(f"/api/v1/subscriptions/{session}/none", "DELETE", **BEARER).code == "no-such-subscription"
    assert client.ask(f"/api/v1/subscriptions/{session}/tv", "DELETE", **BEARER).status == 204
    assert [each.service for each in scene.registry.state.all_subscriptions()] == ["radio"]
    assert client.ask(f"/api/v1/sessions/{session}", "DELETE", **BEARER).status == 204
    scene.pass_time(1)
    assert session not in scene.registry.state.sessions
    assert scene.events(ev.SessionClosed)[-1].reason == "closed-by-operator"


def test_the_level_of_the_log_is_changed_for_one_part() -> None:
    client = Admin().client()
    path = "/api/v1/log-level"
    assert client.ask(path, "PUT", b'{"level":"warn","part":"bus"}', **BEARER).json == {"log_level": "debug,bus=warn"}
    assert client.ask(path, "PUT", b'{"level":"loud"}', **BEARER).code == "bad-body"
    assert client.ask(path, "PUT", b'{"level":"warn","part":"x"}', **BEARER).code == "no-such-part"
    assert client.ask(path, "PUT", b"[" * 60_000, **BEARER).code == "bad-body"


# The table.


def test_every_problem_of_the_table_is_known() -> None:
    assert {code for row in ROUTES for code in row.problems} <= PROBLEMS.keys()


def test_every_route_needs_a_permission_or_says_why_not() -> None:
    public = {row.path for row in ROUTES if row.permission is None}
    assert public == {"/", "/static/{file...}", "/healthz", "/api/v1/openapi.json", "/api/v1/codes"} & public
    assert {"/", "/healthz"} <= public
    assert all(row.permission == "write" for row in ROUTES if row.method != "GET")


def test_heads_have_no_body_and_paths_name_their_methods() -> None:
    client = Admin().client()
    head, get = client.ask("/api/v1/server", "HEAD"), client.ask("/api/v1/server")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == get.headers["Content-Length"]
    assert client.ask("/api/v1/server", "POST", **BEARER).headers["Allow"] == "GET, HEAD"
    assert client.ask("/api/v1/events", "HEAD").headers["Allow"] == "GET"
