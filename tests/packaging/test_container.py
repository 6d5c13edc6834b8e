"""The Containerfile: what it claims holds, as far as that can be seen without a container engine.

Its server runs as its user, with its commands, on a file system that is read-only except for the volumes.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from bussrv.cli.main import BUSSRV
from bussrv.journal.reading import read_journal
from bussrv.server.configuration.option_table import BUILT_IN

ROOT = Path(__file__).parents[2]
CONFIGURATION, JOURNAL = "/etc/bussrv", "/var/lib/bussrv"

Instructions = list[tuple[str, str]]


def stages() -> list[Instructions]:
    """The instructions of each stage, without comments, each on one line."""
    text = re.sub(r"(?m)^#.*\n", "", (ROOT / "Containerfile").read_text())
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    found: list[Instructions] = []
    for line in filter(None, lines):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest.strip()))
    return found


def of(word: str) -> str:
    """The rest of the one instruction of this kind in the image."""
    (found,) = [rest for each, rest in stages()[-1] if each == word]
    return found


def command(word: str) -> list[str]:
    words: list[str] = json.loads(of(word).partition("CMD ")[2] if word == "HEALTHCHECK" else of(word))
    return words


def test_the_image_is_not_root_and_writes_only_to_its_volumes() -> None:
    build, image = stages()
    words = [word for word, _ in image]
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", of("USER"))
    # Nothing is done as root after that.
    assert "RUN" not in words[words.index("USER") :]
    assert json.loads(of("VOLUME")) == [CONFIGURATION, JOURNAL]
    assert of("STOPSIGNAL") == "SIGTERM"
    assert of("COPY") == "--from=build /opt/bussrv /opt/bussrv"
    assert {rest.split()[0] for stage in (build, image) for word, rest in stage if word == "FROM"} == {
        "docker.io/library/python:3.13-slim"
    }


def test_its_commands_are_understood() -> None:
    program, *arguments = command("ENTRYPOINT")
    assert (program, arguments[-2:]) == ("twistd", ["--journal", f"{JOURNAL}/journal"])
    assert command("CMD") == ["--config", f"{CONFIGURATION}/bussrv.toml"]
    name, *rest = command("HEALTHCHECK")[1:]
    checked = BUSSRV.get_command(BUSSRV.make_context("bussrv", []), name)
    assert checked is not None
    assert checked.make_context(name, rest).params["file"] == f"{CONFIGURATION}/bussrv.toml"
    assert "--insecure" not in (ROOT / "Containerfile").read_text()
    assert {each.name for each in BUILT_IN} >= {"journal", "config"}


def test_only_what_the_package_is_built_from_gets_into_the_build() -> None:
    rows = (ROOT / ".containerignore").read_text().splitlines()
    assert (ROOT / ".dockerignore").read_text().splitlines() == rows
    taken = [each[1:] for each in rows if each.startswith("!")]
    assert rows[1] == "*"
    assert sorted(taken) == ["README.md", "bussrv", "pyproject.toml", "setup.py", "twisted"]
    assert all((ROOT / each).exists() for each in taken)


SCRIPT = """
set -e
user=$1 group=$2 path=$3
mount -t tmpfs none /mnt
cp -a /etc /mnt/etc
mkdir -m 0700 /mnt/etc/bussrv && chown $user:$group /mnt/etc/bussrv
mount --bind /mnt/etc /etc
mount -t tmpfs none /var/lib
mkdir -m 0700 /var/lib/bussrv && chown $user:$group /var/lib/bussrv
mount --bind "$JOURNALS" /var/lib/bussrv
ip link set lo up
for each in / /tmp /dev/shm /run; do mount -o remount,bind,ro $each 2>/dev/null || true; done
as="setpriv --reuid $user --regid $group --clear-groups --bounding-set=-all --no-new-privs"
$as touch /tmp/x 2>/dev/null && exit 3
$as bussrv init /etc/bussrv --name hall.example >/dev/null
mount -o remount,bind,ro /etc
cd /var/lib/bussrv
$as {start} &
server=$!
times=0
until $as {check}; do
    times=$((times + 1)); test $times -lt 150; kill -0 $server; sleep 0.2
done
kill -TERM $server
wait $server
"""


@pytest.mark.processes
@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file system read-only")
def test_it_runs_without_root_on_a_read_only_file_system(tmp_path: Path) -> None:
    user, group = of("USER").split(":")
    os.chown(tmp_path, int(user), int(group))
    words = {"start": [*command("ENTRYPOINT"), *command("CMD")], "check": command("HEALTHCHECK")}
    script = SCRIPT.format(**{name: shlex.join(each) for name, each in words.items()})
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "JOURNALS": str(tmp_path),
        "TMPDIR": "/nowhere",
    }
    run = ["unshare", "--mount", "--net", "sh", "-c", script, "sh", user, group, ""]
    ran = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=100, check=False)
    if "Operation not permitted" in ran.stderr and "unshare" in ran.stderr:
        pytest.skip("this system allows no namespaces")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "draining" in ran.stdout
    told = [type(each.event).__name__ for each in read_journal(tmp_path / "journal")]
    assert (told[0], told[-1]) == ("ServerStarted", "ServerStopped")
    assert not [each for each in told if each.startswith("Auth")]
