"""The admin interface of a server in a process of its own."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from bussrv.testing.server import RunningServer
from tests.forked import ForkedServer

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with ForkedServer(tmp_path_factory.mktemp("admin") / "journal") as running:
        while get(running, "/api/v1/services?service=bus/*")[1]["total"] < 3:
            # They are registered when their records are durable.
            running.process.poll()
        yield running


def get(server: RunningServer, path: str, headers: dict[str, str] | None = None) -> tuple[int, Any, dict[str, str]]:
    connection = http.client.HTTPConnection(*server.addresses["admin"], timeout=10)
    connection.request("GET", path, headers=headers or {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    is_json = (answer.headers.get_content_type() or "").endswith("json")
    return answer.status, json.loads(body) if is_json and body else body, dict(answer.headers)


def test_it_says_which_server_it_is(server: RunningServer) -> None:
    status, shown, _ = get(server, "/api/v1/server")
    assert status == 200
    assert shown["permissions"] == {"read": True, "write": False}
    assert shown["formats"]["spp"] == f"tcp 127.0.0.1:{server.port('spp')}"


def test_collections_are_filtered_and_have_a_tag(server: RunningServer) -> None:
    status, page, headers = get(server, "/api/v1/services?service=bus/*&sort=-service&limit=2")
    assert status == 200
    assert [each["service"] for each in page["items"]] == ["bus/statistics", "bus/registry"]
    assert page["total"] == 3
    rest = get(server, f"/api/v1/services?service=bus/*&sort=-service&limit=2&after={page['next']}")[1]
    assert [each["service"] for each in rest["items"]] == ["bus/clock"]
    assert rest["next"] is None
    again = get(server, "/api/v1/services?limit=2", {"If-None-Match": headers["ETag"]})
    assert again[0] == 304


@pytest.mark.parametrize(
    ("path", "headers", "status", "code"),
    [
        ("/api/v1/server", {"Host": "evil.example"}, 421, "bad-host"),
        ("/api/v1/server", {"Origin": "http://evil.example"}, 403, "bad-origin"),
        ("/api/v1/server", {"Authorization": "Bearer guess"}, 401, "bad-credentials"),
        ("/api/v1/nothing", {}, 404, "not-found"),
        ("/api/v1/sessions?colour=red", {}, 400, "bad-parameter"),
    ],
)
def test_problems_have_codes(server: RunningServer, path: str, headers: dict[str, str], status: int, code: str) -> None:
    found, problem, _ = get(server, path, headers)
    assert (found, problem["type"]) == (status, f"urn:bussrv:problem:{code}")


def test_static_files_have_tags(server: RunningServer) -> None:
    status, body, headers = get(server, "/")
    assert status == 200
    assert body.startswith(b"<!doctype html>")
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert get(server, "/", {"If-None-Match": headers["ETag"]})[0] == 304
