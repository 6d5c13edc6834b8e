"""Whatever is wrong with a start: one clear sentence on standard error, exit status 1, no traceback."""

import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from bussrv.testing.server import FREE_PORTS, TWISTD
from tests.end_to_end.conftest import Start


def run(directory: Path, options: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [*TWISTD, "-n", "--pidfile=", "bussrv", *FREE_PORTS, *options]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--spp", "99999"], "--spp: 99999 is no port"),
        (["--spp", ""], "--spp: '' is not a text"),
        (["--spp", "somewhere"], "--spp: 'somewhere' is no endpoint, such as tcp:3002:interface=127.0.0.1"),
        (["--spp", "bogus:1"], "--spp: 'bogus:1' is not a stream endpoint"),
        (["--objects", "tcp:x"], "--objects: 'tcp:x' is not a stream endpoint"),
        (["--business", "udp:5"], "--business: 'udp:5' is not a stream endpoint"),
        (["--inbus", "tcp:5"], "--inbus: 'tcp:5' is not of the form udp:PORT or udp:PORT:interface=ADDRESS"),
        (["--inbus", "udp:5:mtu=3"], "--inbus: 'udp:5:mtu=3' is not of the form"),
        (["--objects", "tcp:0:interface=192.0.2.1"], "cannot listen on 192.0.2.1"),
        (["--journal-sync", "sometimes"], "--journal-sync: 'sometimes' is none of always, interval, off"),
        (["--journal", "/proc/bussrv"], "cannot write the journal directory /proc/bussrv"),
        (["--max-payload", "-3"], "--max-payload: '-3' is not a whole number of 1 or more"),
        (["--max-metadata", "lots"], "--max-metadata: 'lots' is not a whole number"),
        (["--subscribe-timeout", "soon"], "--subscribe-timeout: 'soon' is not a number of seconds"),
        (["--subscribe-timeout", "0"], "--subscribe-timeout: must be more than 0 seconds"),
        (["--inbus-lease", "inf"], "--inbus-lease: 'inf' is not a number of seconds"),
        (["--inbus-allow", "10.0.0.0/99"], "--inbus-allow: '10.0.0.0/99' does not appear to be"),
        (["--announce", "everybody"], "--announce: 'everybody' is none of members, servers, off"),
        (["--server-id", "a\nb"], "--server-id: at most 255 bytes, without control characters"),
        (["--link", "hall"], "--link: 'hall' is not a client endpoint"),
        (["--no-such-option"], "option --no-such-option not recognized"),
        (["surplus"], "there is no argument 'surplus'"),
        (["--config", "missing.toml"], "--config: cannot read missing.toml: No such file or directory"),
        (["--objects=off", "--business=off", "--inbus=off", "--spp=off"], "every wire format is off"),
    ],
)
def test_bad_options(tmp_path: Path, options: list[str], sentence: str) -> None:
    ended = run(tmp_path, options)
    assert ended.returncode == 1
    assert sentence in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith("bussrv: ")
    assert "Traceback" not in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("spp = ", "is not TOML"),
        ("color = 3\n", "there is no option 'color'"),
        ("spp = 70000\n", "--spp: 70000 is no port"),
        ("spp = true\n", "--spp: True is not a text"),
        ("strict = 1\n", "--strict: 1 is neither true nor false"),
        ("max-payload = 1.5\n", "--max-payload: 1.5 is not a whole number"),
        ("inbus-allow = [7.5]\n", "--inbus-allow:"),
    ],
)
def test_bad_configuration_files(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "bussrv.toml").write_text(text)
    command = [*TWISTD, "-n", "--pidfile=", "bussrv", "--config", "bussrv.toml"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert sentence in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["objects", "business", "spp"])
def test_a_busy_port(tmp_path: Path, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run(tmp_path, [f"--{name}", str(port)])
    assert ended.returncode == 1
    assert ended.stderr == f"bussrv: cannot listen on 127.0.0.1, port {port}: Address already in use\n"


def test_a_busy_datagram_port(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        ended = run(tmp_path, ["--inbus", str(taken.getsockname()[1])])
    assert ended.returncode == 1
    assert "Address already in use" in ended.stderr


def test_a_journal_that_another_server_uses(start: Start, journal: Path, tmp_path: Path) -> None:
    server = start()
    ended = run(tmp_path, ["--journal", str(journal)])
    assert ended.returncode == 1
    assert ended.stderr == f"bussrv: another server is using the journal directory {journal}\n"
    assert server.stop(signal.SIGTERM) == 0


def test_a_damaged_journal(start: Start, journal: Path, tmp_path: Path) -> None:
    start().stop()
    (segment,) = journal.glob("*.jsonl")
    first, _, rest = segment.read_bytes().partition(b"\n")
    segment.chmod(0o640)
    segment.write_bytes(first[:-5] + b"\n" + rest)
    ended = run(tmp_path, ["--journal", str(journal)])
    assert ended.returncode == 1
    assert f"{segment}, line 1: not the header of a segment" in ended.stderr
    assert "--journal-salvage" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_failed_start_leaves_the_journal_to_others(start: Start, journal: Path, tmp_path: Path) -> None:
    assert run(tmp_path, ["--journal", str(journal), "--spp", "bogus:1"]).returncode == 1
    assert start().stop() == 0
