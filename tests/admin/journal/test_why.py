"""``/api/v1/why``: the answers of ``bussrv why``, of a running server."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from bussrv.cli.main import main
from tests.admin.test_running import get
from tests.forked import ForkedServer


@pytest.mark.processes
def test_it_answers_as_the_command_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = tmp_path / "journal"
    assert main(["journal", "synth", str(journal), "--events", "3000"]) == 0
    asked = {"at": "1500", "service": "lamp", "type": "text/plain"}
    with ForkedServer(journal) as server:
        status, said, _ = get(server, f"/api/v1/why?{urlencode(asked)}")
        assert status == 200
        capsys.readouterr()
        assert main(["why", str(journal), "--json", *(f"--{name}={value}" for name, value in asked.items())]) == 0
        assert json.loads(capsys.readouterr().out) == said
        assert said["sessions"]
        now = get(server, f"/api/v1/why?object={quote('{}')}")[1]
        assert now["moments"][0]["rules"]["is_known"]
        refused = [
            ("", "bad-parameter"),
            ("service=tv&request=tv", "bad-parameter"),
            ("request=tv&type=a/b", "bad-parameter"),
            ("object=%7B", "bad-parameter"),
            ("service=tv&from=nobody", "bad-parameter"),
            ("service=tv&asker=ann", "bad-parameter"),
            ("service=tv&turn=nobody", "bad-parameter"),
            ("service=tv&at=2026-02-31T00:00:00Z", "no-such-moment"),
            ("service=tv&at=999999999", "journal-unreadable"),
        ]
        for query, problem in refused:
            assert get(server, f"/api/v1/why?{query}")[1]["type"].endswith(problem), query
        unfit = get(server, "/api/v1/why?service=tv&at=yesterday")[1]["detail"]
        assert unfit.startswith("at: 'yesterday' does not fit. A time in UTC such as 2026-11-21T14:02:03Z, or ")
