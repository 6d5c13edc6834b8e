"""Spark where the user or the host has no name, as in a container."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bussrv.audit.spark import surroundings
from bussrv.audit.spark.surroundings import java_options, user_name, variables
from tests.audit.commands import ROOT
from tests.audit.journals import day, write_journal
from tests.audit.nameless import PROGRAM
from tests.tables import each_row

UID = 54_321

HOST = "nowhere.invalid"
"""A name that no machine has (RFC 2606)."""


@each_row(
    "master, given, resolves, variables_",
    [
        ("local[*]", {}, False, {"SPARK_LOCAL_IP": "127.0.0.1"}),
        ("local-cluster[2,1,1024]", {}, False, {"SPARK_LOCAL_IP": "127.0.0.1"}),
        ("local[*]", {}, True, {}),
        ("local[*]", {"SPARK_LOCAL_IP": "192.0.2.1"}, False, {}),
        ("local[*]", {"SPARK_LOCAL_HOSTNAME": "hall"}, False, {}),
        ("spark://hall:7077", {}, False, {}),
    ],
)
def test_an_address_in_place_of_a_name(
    monkeypatch: pytest.MonkeyPatch,
    master: str,
    given: dict[str, str],
    resolves: bool,
    variables_: dict[str, str],
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "127.0.0.1" if resolves else "no name")
    assert variables(master, given) == variables_


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who is not in the password database."""

    def get(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", get)
    monkeypatch.setattr(os, "geteuid", lambda: UID)


@each_row(
    "given, name",
    [
        ({}, "54321"),
        ({"SPARK_USER": "spark"}, "spark"),
        ({"SPARK_USER": "spark", "HADOOP_USER_NAME": "hadoop"}, "hadoop"),
        ({"HADOOP_USER_NAME": ""}, "54321"),
    ],
)
@pytest.mark.usefixtures("unknown")
def test_the_name_of_an_unknown_user(given: dict[str, str], name: str) -> None:
    assert user_name(given) == name


@each_row("home", [None, "", "/", "relative", "/nowhere/such"])
@pytest.mark.usefixtures("unknown")
def test_an_unknown_user_without_a_home(home: str | None) -> None:
    given = {} if home is None else {"HOME": home}
    assert java_options(given, Path('/tmp/a "b" \\c')) == ['"-Duser.home=/tmp/a \\"b\\" \\\\c"']


@pytest.mark.usefixtures("unknown")
def test_an_unknown_user_with_a_home(tmp_path: Path) -> None:
    assert java_options({"HOME": str(tmp_path)}, Path("/tmp/x")) == [f'"-Duser.home={tmp_path}"']


def test_a_known_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings.pwd, "getpwuid", lambda uid: object())
    assert user_name({"HADOOP_USER_NAME": "hadoop"}) is None
    assert java_options({}, Path("/tmp/x")) == []


def nameless(program: list[str]) -> list[str]:
    """A command that runs a program as a user without an entry in the password database, on a host whose name does not
    resolve. It may read what root may, because the interpreter may be in a directory of root.

    It is skipped if that is not allowed here.
    """
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        pytest.skip("needs unshare and setpriv")
    rights = [f"--{each}-caps=+dac_override" for each in ("inh", "ambient")]
    user = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", *rights]
    command = ["unshare", "--uts", "sh", "-c", f'hostname {HOST} && exec "$@"', "sh", *user]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"another user and host name are not allowed here: {tried.stderr.strip()}")
    return [*command, *program]


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory of that user. It is not below those of pytest: Java asks for rights that it has without root's."""
    with TemporaryDirectory(prefix="bussrv-nameless-") as directory:
        os.chown(directory, UID, UID)
        yield Path(directory)


@pytest.mark.processes
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have another user and host name")
def test_an_audit_without_a_name_of_user_and_host(place: Path) -> None:
    """Workers read the journal, and Spark writes the tables."""
    write_journal(place / "hall", day().records)
    command = nameless([sys.executable, *PROGRAM, "hall", "--csv"])
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "HADOOP_"))}
    environment = {**kept, "HOME": "/", "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    assert ended.returncode == 0
    assert "JOURNAL INTACT" in ended.stdout
    out = place / "bussrv-audit"
    assert out.stat().st_uid == UID
    assert len((out / "csv" / "sessions.csv").read_text().splitlines()) == 3
