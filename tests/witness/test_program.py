"""``bussrv witness``, asked as the protocol says, by logs that are honest and by others."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bussrv.cli.failure import FAILED
from bussrv.journal.keys import generate
from bussrv.settings import Settings
from bussrv.transparency.cosignatures import signed_by
from bussrv.transparency.notes import COSIGNATURE, ML_DSA_44, VerifierKey, parse_key, parse_note
from bussrv.transparency.witnessing import SIZE_TYPE, Submission, cosignatures_in
from bussrv.witness.witness import origin_hash
from tests.witness.logs import Log

pytestmark = pytest.mark.processes

COMMAND = str(Path(sys.executable).with_name("bussrv"))
ENTRIES = [b"%d" % number for number in range(60)]
HALL = Log(entries=ENTRIES)


class Running:
    """The program, started as a user does."""

    def __init__(self, place: Path, log_keys: Sequence[str], *options: str) -> None:
        key = place / "witness.key"
        if not key.exists():
            generate(key)
        command = [COMMAND, "witness", "--name", "attic.example/w1", "--key", str(key)]
        for each in log_keys:
            command += ["--log", each]
        command += ["--listen", "tcp:0:interface=127.0.0.1", "--state", str(place / "state"), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        self.keys: list[VerifierKey] = []
        for line in self.process.stdout:
            if line.startswith("verifier key "):
                self.keys.append(parse_key(line.split()[2]))
            elif found := re.search(r"on 127\.0\.0\.1 port (\d+)", line):
                self.port = int(found[1])
                return
        raise AssertionError("it did not begin")

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, str, bytes]:
        """:returns: the status, the content type and the body of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type", ""), answer.read()
        finally:
            connection.close()

    def submit(self, submission: Submission) -> tuple[int, str, bytes]:
        return self.ask("POST", "/some/prefix/add-checkpoint", submission.encode())

    def newest(self, log: Log) -> int:
        """The size that it cosigned last; 0: none."""
        status, _, body = self.ask("GET", f"/{origin_hash(log.origin)}/checkpoint")
        if status == 404:
            return 0
        note = parse_note(body)
        assert signed_by(note, log.key.verifier)
        assert all(signed_by(note, key) for key in self.keys)
        return int(note.text.split("\n")[1])


@contextmanager
def running(place: Path, *options: str, log_keys: Sequence[str] = (HALL.key.verifier.text,)) -> Iterator[Running]:
    """A witness that runs."""
    witness = Running(place, log_keys, *options)
    try:
        yield witness
    finally:
        witness.process.kill()
        witness.process.communicate()


def test_it_cosigns_what_goes_on_and_never_goes_back(tmp_path: Path) -> None:
    with running(tmp_path, "--ml-dsa") as witness:
        assert [each.type for each in witness.keys] == [COSIGNATURE, ML_DSA_44]
        assert witness.newest(HALL) == 0
        status, _, answer = witness.submit(HALL.submission(0, 7))
        assert status == 200, answer
        text = HALL.checkpoint(7).text
        found = cosignatures_in(answer, text, witness.keys)
        assert [(each.key, abs(each.time - time.time()) < 60) for _, each in found if each.time] == [
            (key, True) for key in witness.keys
        ]
        assert witness.newest(HALL) == 7
        # An honest log that does not know what was cosigned is told; then it goes on.
        assert witness.submit(HALL.submission(0, 9)) == (409, SIZE_TYPE, b"7\n")
        assert witness.submit(HALL.submission(7, 9))[0] == 200
        # Others.
        forked = Log(entries=[b"other", *ENTRIES[1:]])
        assert witness.submit(forked.submission(9, 12))[0] == 422
        assert witness.submit(HALL.submission(5, 8))[0] == 409
        assert witness.submit(HALL.submission(9, 5))[0] == 400
        assert witness.submit(Log("other.example", ENTRIES).submission(0, 3))[0] == 404
        assert witness.submit(Log(HALL.origin, ENTRIES, seed=5).submission(9, 12))[0] == 403
        assert witness.ask("POST", "/add-checkpoint", b"nonsense")[0] == 400
        elsewhere = (("GET", "/"), ("POST", "/"), ("PUT", "/add-checkpoint"))
        assert [witness.ask(*each)[0] for each in elsewhere] == [404, 404, 501]
        assert witness.newest(HALL) == 9
        witness.process.send_signal(signal.SIGTERM)
        assert witness.process.wait(10) == 0
    with running(tmp_path, "--ml-dsa") as witness:
        assert witness.newest(HALL) == 9
        assert witness.submit(HALL.submission(0, 3)) == (409, SIZE_TYPE, b"9\n")


def test_kill_9_under_load_takes_nothing_back(tmp_path: Path) -> None:
    """Two clients race with all sizes, forwards and as they please, until the process is killed."""
    told: list[int] = []

    def race(witness: Running, begin: int) -> None:
        size = 0
        try:
            for step in range(1000):
                new = min(len(ENTRIES), size + 1 + (step + begin) % 2)
                status, _, answer = witness.submit(HALL.submission(size, new))
                if status == 200:
                    told.append(new)
                size = new if status == 200 else int(answer)
                if size == len(ENTRIES):
                    return
        except (OSError, http.client.HTTPException):
            return

    for kill_at in (10, 30, 61):
        with running(tmp_path) as witness:
            known = witness.newest(HALL)
            assert known >= max(told, default=0)
            racing = [threading.Thread(target=race, args=(witness, begin)) for begin in range(2)]
            for each in racing:
                each.start()
            while max(told, default=0) < kill_at and any(each.is_alive() for each in racing):
                racing[0].join(0.001)
            witness.process.kill()
            for each in racing:
                each.join()
    with running(tmp_path) as witness:
        assert witness.newest(HALL) >= max(told) == len(ENTRIES)
    # Each size was cosigned for one of them at most once, unless it was the last one.
    assert len({each for each in told if each < len(ENTRIES)}) == sum(each < len(ENTRIES) for each in told)


def test_nobody_makes_others_wait_or_takes_all_connections(tmp_path: Path) -> None:
    limits = Settings(witness_max_body=9_000, witness_max_connections_per_address=4)
    given = ("--limit", "witness-max-body=9000", "--limit", "witness-max-connections-per-address=4")
    with running(tmp_path, *given) as witness:
        address = ("127.0.0.1", witness.port)
        assert witness.ask("POST", "/add-checkpoint", bytes(limits.witness_max_body + 1))[0] == 413
        # A body in chunks says no length.
        with socket.create_connection(address, 10) as chunked:
            chunked.sendall(b"POST /add-checkpoint HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            answer = b""
            try:
                while not answer:
                    chunked.sendall(b"10000\r\n" + bytes(1 << 16) + b"\r\n")
                    chunked.settimeout(0.001)
                    try:
                        answer = chunked.recv(100)
                    except TimeoutError:
                        chunked.settimeout(10)
            except ConnectionError:
                answer = answer or b"HTTP/1.1 413"
            assert answer.startswith(b"HTTP/1.1 413")
        most = limits.witness_max_connections_per_address
        slow = [socket.create_connection(address, 10) for _ in range(most + 5)]
        try:
            for each in slow[:most]:
                # An earlier connection may still count, and this one be closed.
                with suppress(ConnectionError):
                    each.sendall(b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 9\r\n\r\n")
            # Those beyond the limit are closed at once.
            assert [each.recv(1) for each in slow[most:]] == [b""] * 5
        finally:
            for each in slow:
                each.close()
        # It may not have noticed yet that they are gone.
        while (status := submitted(witness)) is None:
            continue
        assert status == 200
        witness.process.send_signal(signal.SIGTERM)
        said = witness.process.communicate(timeout=20)[0]
    assert "answers: 200 1, 413 2; limits that were reached: " in said
    assert "witness-max-body 2, witness-max-connections-per-address " in said


def submitted(witness: Running) -> int | None:
    try:
        return witness.submit(HALL.submission(0, 3))[0]
    except (OSError, http.client.HTTPException):
        return None


def test_it_says_why_it_cannot_begin(tmp_path: Path) -> None:
    generate(tmp_path / "witness.key")
    log, key = HALL.key.verifier.text, str(tmp_path / "witness.key")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"tcp:{taken.getsockname()[1]}:interface=127.0.0.1"
        for options, reason in (
            (("--name", "a b", "--key", key, "--log", log), "neither blanks nor"),
            (("--name", "w", "--key", key, "--log", "nonsense"), "not a verifier key"),
            (("--name", "w", "--key", str(tmp_path / "none"), "--log", log), "none"),
            (("--name", "w", "--key", key, "--log", log, "--limit", "body=1"), "none of witness-max-connections,"),
            (("--name", "w", "--key", key, "--log", log, "--limit", "witness-max-body=x"), "not a whole number"),
            (("--name", "w", "--key", key, "--log", log, "--listen", listen), "in use"),
            (("--name", "w", "--key", key, "--log", log, "--listen", "nonsense:1"), "--listen nonsense:1"),
        ):
            command = [COMMAND, "witness", *options, "--state", str(tmp_path / "state")]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert ran.returncode == FAILED, ran
            assert reason in ran.stderr
            assert ran.stderr.startswith("bussrv witness: ")
            assert ran.stderr.count("\n") == 1
