"""``bussrv close``, ``reload`` and ``drain`` at a running server."""

from __future__ import annotations

from pathlib import Path

import pytest

from bussrv.client.objects import ObjectsClient
from bussrv.testing.server import PATIENCE
from tests.cli.asked import records, session_of, token
from tests.cli.conftest import Place, run
from tests.forked import ForkedServer

pytestmark = pytest.mark.processes


def test_a_session_is_closed_by_who_may_and_its_history_says_so(place: Place) -> None:
    with ObjectsClient(port=place.server.port("objects")) as client:
        client.subscribe()
        session = session_of(client)
        status, _, complained = run("close", session)
        assert status == 4
        assert complained.endswith(": use --token-file, --user with --secret-file, or a profile\n")
        wrong = place.home / "wrong-token"
        wrong.write_text("x" * 43 + "\n")
        wrong.chmod(0o600)
        assert run("close", session, "--token-file", wrong)[0] == 4
        assert run("close", session, "--token-file", token(place)) == (0, "", "")
        with pytest.raises(ConnectionError):
            client.wait_for(lambda each: False, 10)
    assert run("close", session, "--token-file", token(place))[0] == 1
    assert run("session", session) == (
        1,
        "",
        f"bussrv session: there is no session '{session}'; --history shows a closed one\n",
    )
    *_, last = records("session", session, "--history")
    assert (last["event"], last["reason"]) == ("session.closed", "closed-by-operator")
    status, said, _ = run("session", session, "--history")
    assert (status, said.splitlines()[-1].split()[2]) == (0, "session.closed")
    assert run("session", "never.1", "--history")[0] == 1


def test_health_and_reload(place: Place) -> None:
    status, said, _ = run("health")
    assert (status, said.splitlines()[0]) in ((0, "ready"), (0, "degraded"))
    assert records("health")[0]["status"] in ("ready", "degraded")
    assert run("reload")[0] == 4
    status, said, _ = run("reload", "--token-file", token(place))
    assert (status, said) == (0, "changed            no option\nonly at a restart  no option\n")


def test_a_drain_says_what_ends_and_waits(tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal", ["--drain-seconds", "0.5"]) as server:
        host, port = server.addresses["admin"]
        steer = ["drain", "--server", f"{host}:{port}", "--token-file", str(tmp_path / "journal.admin-token")]
        with ObjectsClient(port=server.port("objects")) as member:
            member.subscribe()
            status, said, _ = run(*steer, "--wait")
            with pytest.raises(ConnectionError) as ended:
                member.wait_for(lambda _: False)
        assert server.process.wait(PATIENCE) == 0
    assert (status, said.splitlines()) == (
        0,
        ["draining: sessions that end within 0.5 s: 1; then the server stops", "the server has stopped"],
    )
    assert "the server was stopped (server-stopped)" in str(ended.value.__cause__)
