"""Journals that are shipped to a server of S3, and read there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bussrv.archive.shipping import Shipper
from bussrv.archive.store import open_store
from bussrv.journal.batch import Rotation
from bussrv.journal.segment import list_segments, segment_name
from bussrv.journal.shipped import SHIPPED_NAME
from bussrv.synth.journal import write_journal
from tests.archive.stores import EACH, written
from tests.audit.commands import BUSSRV, ROOT, run
from tests.journal.support import contents
from tests.moto import Store, store

__all__ = ["store"]

URL = "s3://bus/the hall [1] {a,b} ä%20"
SEGMENTS = 1050

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(900)]


@pytest.fixture
def hall(tmp_path: Path) -> Path:
    write_journal(tmp_path / "hall", events=6000, rotation=Rotation(bytes=60_000), compress=True)
    return tmp_path / "hall"


@pytest.fixture(autouse=True)
def variables(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs", reason="s3fs is not installed: it comes with the extra `fuzz`")
    for name, value in store.variables.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "empty").mkdir()
    store.put(tmp_path / "empty", "nothing")


def test_a_journal_goes_there_and_comes_back(hall: Path, store: Store, tmp_path: Path) -> None:
    count = len(list_segments(hall))
    assert count > 10
    command = [sys.executable, *BUSSRV, "journal", "ship", str(hall), URL]
    killed = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert killed.stdout is not None
    assert b"shipped" in killed.stdout.readline()
    killed.kill()
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert not (hall / SHIPPED_NAME).exists()
    done = run(tmp_path, BUSSRV, "journal", "ship", hall, URL)
    assert (done.returncode, done.stderr) == (0, "")
    assert 0 < done.stdout.count("up to record") < count
    fetched = run(tmp_path, BUSSRV, "journal", "fetch", URL, "back")
    assert (fetched.returncode, fetched.stdout.splitlines()[-1]) == (0, "OK")
    here = contents(hall)
    assert contents(tmp_path / "back") == {name: here[name] for name in here if name not in (SHIPPED_NAME, "shipping")}
    store.reads()
    near, far = (run(tmp_path, BUSSRV, "journal", "state", each, "--json", "--at", "900") for each in (hall, URL))
    assert (far.stdout, far.returncode) == (near.stdout, 0)
    assert len(store.reads()) < 5
    service = json.loads(near.stdout)["subscriptions"][0]["service"]
    for asked in (("journal", "diff", "{}", "900", "1200"), ("timeline", service, "{}")):
        told = [run(tmp_path, BUSSRV, *(str(each) if word == "{}" else word for word in asked)) for each in (hall, URL)]
        assert {(done.stdout, done.stderr) for done in told} == {(told[0].stdout, "")}, asked
        assert told[0].stdout
    for place, each in (("near", str(hall)), ("far", URL)):
        audited = run(tmp_path, BUSSRV, "audit", each, "--engine", "embedded", "--out", place)
        assert (audited.returncode, audited.stderr) == (0, "")
        assert "JOURNAL INTACT: nothing was found" in audited.stdout


def test_trouble_is_one_sentence(hall: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(url: str, status: int = 2) -> str:
        done = run(tmp_path, BUSSRV, "journal", "ship", hall, url)
        assert (done.returncode, done.stderr.count("\n")) == (status, 1)
        return done.stderr

    assert "there is no such bucket or file: The specified bucket does not exist" in said("s3://nowhere/hall")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / segment_name(1)).write_bytes(b"something else")
    store.put(tmp_path / "foreign", "foreign")
    assert "is not what the seal of segment 1 says" in said("s3://bus/foreign", 1)
    with monkeypatch.context() as without:
        without.delenv("AWS_ACCESS_KEY_ID")
        without.delenv("AWS_SECRET_ACCESS_KEY")
        assert "Unable to locate credentials" in said("s3://bus/hall")
    with monkeypatch.context() as away:
        away.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        assert "Could not connect to the endpoint URL" in said("s3://bus/hall")
    store.admit_nobody()
    assert "it is refused: " in said("s3://bus/hall")
    assert not (hall / SHIPPED_NAME).exists()


def test_a_listing_of_more_than_one_page(store: Store, tmp_path: Path) -> None:
    written(tmp_path / "many", *(["x"] * SEGMENTS))
    told: list[int] = []

    def shipper() -> Shipper:
        return Shipper(tmp_path / "many", open_store("s3://bus/many"), lambda seal, url: told.append(seal.segment))

    assert EACH.bytes == 1
    assert shipper().look().segments == 0
    assert len(told) == SEGMENTS
    assert len(open_store("s3://bus/many").names()) == SEGMENTS + 1
    told.clear()
    store.reads()
    assert shipper().look().segments == 0
    assert (told, store.reads()) == ([], ["/bus/many/manifest"])
