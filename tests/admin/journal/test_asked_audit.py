"""An audit that somebody asks for: a process of its own beside a real server."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bussrv.cli.admin_client import AdminClient, AdminError
from tests.admin.scene import BEARER, Admin
from tests.forked import ForkedServer

pytestmark = pytest.mark.processes


def test_an_audit_is_made_and_its_report_is_there(tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal", ["--server-id", "hall"]) as server:
        token = (tmp_path / "journal.admin-token").read_text().strip()
        client = AdminClient("127.0.0.1", server.port("admin"), 60.0, token=token)
        assert client.get("/audit")["state"] == "none"
        with pytest.raises(AdminError, match="no-report"):
            client.get("/audit/report")
        begun = client.call("POST", "/audit")
        assert begun["state"] == "running"
        # While it runs, no other one begins.
        assert client.call("POST", "/audit")["started"] == begun["started"]
        end = time.monotonic() + 120
        while (last := client.get("/audit"))["state"] == "running":
            assert time.monotonic() < end
            time.sleep(0.2)
        assert (last["state"], last["message"]) == ("done", "")
        with client._asked("GET", "/audit/report", {}, None, {}) as answer:
            assert answer.headers["Content-Security-Policy"] == "sandbox"
            assert answer.headers["Content-Disposition"].startswith("attachment")
            assert b"Journal intact" in answer.read()
        assert (tmp_path / "journal.audit" / "summary.json").is_file()
        assert server.stop() == 0


def test_an_audit_ends_with_its_server(tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal") as server:
        token = (tmp_path / "journal.admin-token").read_text().strip()
        client = AdminClient("127.0.0.1", server.port("admin"), 60.0, token=token)
        client.call("POST", "/audit")
        assert server.stop() == 0
    mine = str(tmp_path / "journal.audit").encode()
    # It is as nice as can be: on a busy machine, its end takes a while.
    end = time.monotonic() + 100
    while any(mine in each for each in arguments()):
        assert time.monotonic() < end, "the audit goes on"


def arguments() -> list[bytes]:
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                found.append((each / "cmdline").read_bytes())
            except OSError:
                continue
    return found


def test_a_server_without_a_journal_has_none() -> None:
    assert Admin().client().ask("/api/v1/audit", "POST", b"{}", **BEARER).code == "no-journal"
