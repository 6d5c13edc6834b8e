"""Whatever is wrong with a start: one clear sentence on standard error, exit status 1, no traceback."""

import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from bussrv.testing.server import FREE_PORTS, TWISTD
from tests.end_to_end.conftest import Start
from tests.forked import refused, refused_start
from tests.tables import each_row


def run(directory: Path, options: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [*TWISTD, "-n", "--pidfile=", "bussrv", *FREE_PORTS, *options]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("options", [["--no-such-option"], ["--insecure", "--objects", "tcp:0:interface=192.0.2.1"]])
def test_what_is_wrong_is_one_line_on_standard_error(tmp_path: Path, options: list[str]) -> None:
    """Whether it is seen before the start or only then."""
    ended = run(tmp_path, options)
    assert ended.returncode == 1
    assert ended.stderr == refused_start(tmp_path, *options)
    assert "Traceback" not in ended.stdout


@each_row(
    ("options", "sentence"),
    [
        (["--spp", "99999"], "--spp: 99999 is no port"),
        (["--spp", "bogus:1"], "--spp: 'bogus:1' is not a stream endpoint"),
        (["--inbus", "tcp:5"], "--inbus: 'tcp:5' is not of the form udp:PORT or udp:PORT:interface=ADDRESS"),
        (["--insecure", "--objects", "tcp:0:interface=192.0.2.1"], "cannot listen on 192.0.2.1"),
        (["--journal", "/proc/bussrv"], "cannot write the journal directory /proc/bussrv"),
        (["--link", "hall"], "--link: 'hall' is not a client endpoint"),
        (["--no-such-option"], "option --no-such-option not recognized"),
        (["surplus"], "there is no argument 'surplus'"),
        (["--config", "missing.toml"], "--config: cannot read missing.toml: No such file or directory"),
        (["--objects=off", "--business=off", "--inbus=off", "--spp=off"], "every wire format is off"),
    ],
)
def test_bad_options(tmp_path: Path, options: list[str], sentence: str) -> None:
    assert sentence in refused_start(tmp_path, *options)


def test_faults_of_all_sources_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bussrv.toml").write_text("strict = true\nmax-payload = 1.5\n")
    monkeypatch.setenv("BUSSRV_MAX_LINKS", "0")
    said = refused(tmp_path, "--config", "bussrv.toml", "--announce", "everybody")
    assert said.splitlines() == [
        "bussrv: bussrv.toml:2: max-payload: 1.5 is not a whole number of 1 or more",
        "bussrv: --announce: 'everybody' is none of members, servers, off",
        "bussrv: BUSSRV_MAX_LINKS: '0' is not a whole number of 1 or more (see twistd bussrv --help)",
    ]


def test_faults_that_only_a_start_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bussrv.toml").write_text('\nlink = ["tcp:hall", "tcp:cellar:x"]\nauth = "users:none"\n')
    monkeypatch.setenv("BUSSRV_BUSINESS", "tcp:0:color=red")
    config = ["--objects=0", "--inbus=0", "--spp=0", "--journal=off", "--config=bussrv.toml"]
    command = [*TWISTD, "-n", "--pidfile=", "bussrv", *config]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        "bussrv: BUSSRV_BUSINESS: 'tcp:0:color=red' is not a stream endpoint: there is no parameter 'color'",
        f"bussrv: bussrv.toml:3: auth: cannot read the users in {tmp_path / 'none'}: No such file or directory",
        "bussrv: bussrv.toml:2: link: 'tcp:hall' is not a client endpoint: it lacks 'port'",
        "bussrv: bussrv.toml:2: link: 'tcp:cellar:x' is not a client endpoint: 'x' is no number",
    ]


def test_every_busy_port_is_named(tmp_path: Path) -> None:
    """That of the admin interface, too, and what else is wrong."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        busy = [f"--{name}={port}" for name in ("objects", "spp", "admin")]
        said = refused(tmp_path, *busy, "--journal=off")
        before = refused(tmp_path, *busy, "--link=tcp:hall:99999", "--journal=/dev/null")
    assert said.splitlines() == [
        f"bussrv: --{name}: cannot listen on 127.0.0.1, port {port}: Address already in use"
        for name in ("objects", "spp", "admin")
    ]
    assert before.splitlines() == [
        "bussrv: --link: 'tcp:hall:99999' is not a client endpoint: ports are 0 to 65535",
        "bussrv: --journal: cannot write the journal directory /dev/null: File exists",
    ]


def test_options_without_effect_and_unknown_variables_are_warned(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSSRV_PORT", "tcp://10.0.0.1:7890")
    server = start("--journal", "off", "--journal-key", "nokey")
    assert server.stop() == 0
    for said in (
        "BUSSRV_PORT: has no effect: there is no such option",
        "--journal-key: has no effect: --journal is off",
    ):
        assert [line for line in server.lines if line.endswith(f"#warn] {said}")]


@each_row("name", ["objects", "business", "spp"])
def test_a_busy_port(tmp_path: Path, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused_start(tmp_path, f"--{name}", str(port))
    assert said == f"bussrv: --{name}: cannot listen on 127.0.0.1, port {port}: Address already in use\n"


def test_a_busy_datagram_port(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        said = refused_start(tmp_path, "--inbus", str(taken.getsockname()[1]))
    assert said.startswith("bussrv: --inbus: cannot listen on 127.0.0.1, port ")
    assert said.endswith(": Address already in use\n")


def test_a_journal_that_another_server_uses(start: Start, journal: Path, tmp_path: Path) -> None:
    server = start()
    said = refused_start(tmp_path, "--journal", str(journal))
    assert said == f"bussrv: --journal: another server is using the journal directory {journal}\n"
    assert server.stop(signal.SIGTERM) == 0


def test_a_damaged_journal(start: Start, journal: Path, tmp_path: Path) -> None:
    start().stop()
    (segment,) = journal.glob("*.jsonl")
    first, _, rest = segment.read_bytes().partition(b"\n")
    segment.chmod(0o640)
    segment.write_bytes(first[:-5] + b"\n" + rest)
    said = refused_start(tmp_path, "--journal", str(journal))
    assert f"{segment}, line 1: not the header of a segment" in said
    assert "--journal-salvage" in said


def test_a_failed_start_leaves_the_journal_to_others(start: Start, journal: Path, tmp_path: Path) -> None:
    refused_start(tmp_path, "--journal", str(journal), "--spp", "bogus:1")
    assert start().stop() == 0


def as_daemon(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Ends when nobody has standard error any more: neither the command nor the daemon."""
    command = [*TWISTD, "--pidfile=pid", "--logfile=log", "bussrv", *FREE_PORTS, "--journal=off", *options]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=False)


def test_a_daemon_that_does_not_start_says_so_in_whole(tmp_path: Path) -> None:
    missing = f"--auth=users:{tmp_path / ('x' * 100)}"
    ended = as_daemon(tmp_path, missing)
    assert ended.returncode == 1
    assert ended.stderr == refused_start(tmp_path, "--journal=off", missing)
    assert "x" * 100 in ended.stderr


def test_a_daemon_that_starts_lets_the_terminal_go(tmp_path: Path) -> None:
    ended = as_daemon(tmp_path)
    try:
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
