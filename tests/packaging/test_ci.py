"""``.ci/run`` waits for other package managers instead of failing."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

APT_GET = """#!/bin/sh
echo "$@" >>calls
test "$(wc -l <calls)" -gt {busy} && exit 0
echo 'E: {said}' >&2
exit 100
"""

LOCKS = [
    "Could not get lock /var/lib/apt/lists/lock. It is held by process 4711 (apt-get)",
    "Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?",
    "Unable to lock directory /var/cache/apt/archives/",
]


def run(directory: Path, said: str, busy: int, patience: int = 60) -> tuple[int, int]:
    """:returns: the exit status, and how often ``apt-get`` was called."""
    (directory / "apt-get").write_text(APT_GET.format(said=said, busy=busy))
    (directory / "apt-get").chmod(0o755)
    environment = {"PATH": f"{directory}:/usr/bin:/bin", "PAUSE": "0.01", "PATIENCE": str(patience)}
    command = [ROOT / ".ci" / "patiently", "apt-get", "update"]
    ran = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert said in ran.stderr or not busy
    return ran.returncode, len((directory / "calls").read_text().splitlines())


@pytest.mark.parametrize("said", LOCKS)
def test_it_waits_for_a_lock(tmp_path: Path, said: str) -> None:
    assert run(tmp_path, said, busy=3) == (0, 4)


def test_it_does_not_wait_for_anything_else(tmp_path: Path) -> None:
    assert run(tmp_path, "Unable to locate package nonesuch", busy=3) == (100, 1)


def test_it_does_not_wait_for_ever(tmp_path: Path) -> None:
    assert run(tmp_path, LOCKS[0], busy=1000, patience=0) == (100, 1)


def test_every_call_of_apt_get_in_ci_is_patient() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    calls = [line.strip() for line in lines if "apt-get " in line and "command -v" not in line]
    assert calls
    assert all(call.startswith(".ci/patiently apt-get ") for call in calls)
