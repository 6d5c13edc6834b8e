"""Descriptors and backlog: more connections than the system has files for."""

import resource
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from bussrv.testing import server as testing
from bussrv.testing.server import RunningServer
from bussrv.wire.objects import encode
from tests.attacks.bystanders import Bystanders
from tests.attacks.test_a5_memory import member
from tests.size import further

FILES = 200


def cpu(server: RunningServer) -> float:
    """Seconds of CPU that a server has used."""
    ticks = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / 100


def test_with_few_files_sessions_are_fewer_the_journal_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited = ("sh", "-c", f'ulimit -n {FILES}; exec "$@"', "sh", *testing.TWISTD)
    monkeypatch.setattr(testing, "TWISTD", limited)
    options = ["--announce", "off", "--journal-segment-bytes", "4000", "--close-timeout", "120"]
    with RunningServer(tmp_path / "journal", options) as server, ExitStack() as stack, Bystanders(server) as bystanders:
        (said,) = (line for line in server.lines if "--max-sessions is" in line)
        assert f"{FILES} files" in said
        first = stack.enter_context(member(server, receive_mode="no_echo", types="none"))
        with bystanders.during() as waits:
            for number in range(2 * FILES):
                # They go without reading what they asked for: their connections linger. Others are closed at once.
                with suppress(OSError):
                    client = stack.enter_context(socket.create_connection(server.addresses["objects"], 30))
                    client.sendall(encode({"event": "routing/subscribe", "types": [f"echo/{number}"]}))
                    client.sendall(encode({"type": f"echo/{number}"}, bytes(1_000_000)))
                    client.shutdown(socket.SHUT_WR)
                # Each change may need a new segment.
                first.sendall(encode({"event": "services/register", "id": number, "name": f"s{number}"}))
            answers = b""
            while answers.count(b"services/register/reply") + answers.count(b'"error"') < 2 * FILES:
                answers += first.recv(1 << 16)
            # Not before: connections may wait to be accepted.
            used = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
            stack.close()
        assert FILES // 2 < used <= FILES - 20, "some are left for the journal, and others are used"
        assert b'"error"' not in answers
        assert waits.worst() < 1.0
        assert server.stop() == 0
        assert not any("degraded" in line or "cannot be written" in line for line in server.lines)


@pytest.mark.parametrize("left", further([10, 3]), ids=["connections are closed", "connections wait"])
def test_a_server_out_of_descriptors_says_so_once_and_rests(tmp_path: Path, left: int) -> None:
    with RunningServer(tmp_path / "journal") as server, ExitStack() as stack, Bystanders(server) as bystanders:
        soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (left, hard))
        for _ in range(100):
            stack.enter_context(socket.create_connection(server.addresses["objects"], 30))
        used = cpu(server)
        waits = bystanders.watch(1.0)
        assert cpu(server) - used < 0.7
        assert waits.worst() < 0.5
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
        stack.enter_context(member(server))
        assert server.stop() == 0
        assert sum("connections are closed or have to wait" in line for line in server.lines) == 1
        assert sum("EMFILE" in line for line in server.lines) <= 2, "\n".join(server.lines)
