"""Journals in an object store give what the directory gives, except for where they are."""

from __future__ import annotations

import gzip
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bussrv.audit import job
from bussrv.audit.output import PUBLISHED
from bussrv.cli.main import main
from bussrv.journal.batch import Rotation
from bussrv.journal.segment import compressed_path, list_segments
from bussrv.synth.journal import write_journal
from tests.audit.commands import BUSSRV, Started
from tests.audit.ingested import Ingested, as_json
from tests.audit.journals import change_line
from tests.docs.pages import ROOT, blocks
from tests.moto import Store, store

__all__ = ["store"]

PAGE = "docs/how-to/audit-object-store.md"

CHOSEN = "bussrv audit: --engine spark, since PySpark and Java are installed\n"

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(1800)]


def audited(place: Path, store: Store, out: str, *arguments: str) -> Ingested:
    """The tables that the command writes."""
    ended = Started(place, BUSSRV, "audit", *arguments, "--out", out, **store.variables).ended()
    assert (ended.returncode, ended.stderr) == (job.FINDINGS, "" if "--engine" in arguments else CHOSEN)
    import pyarrow.dataset as ds

    tables = {name: ds.dataset(place / out / "tables" / name, partitioning="hive").to_table() for name in PUBLISHED}
    return Ingested({name: as_json(table.to_pylist()) for name, table in tables.items()})


def test_an_object_store_gives_what_directories_give(store: Store, tmp_path: Path) -> None:
    """Segments that are compressed, damaged and missing, and a record that a crash left unfinished."""
    hall, barn = tmp_path / "hall", tmp_path / "barn"
    for journal in (hall, barn):
        write_journal(journal, events=2500, server=journal.name, rotation=Rotation(bytes=60_000))
        assert len(list_segments(journal)) > 4
    first, *_, last = list_segments(hall)
    compressed_path(first).write_bytes(gzip.compress(first.read_bytes()))
    first.unlink()
    with last.open("ab") as file:
        file.write(b'{"v":4,"prev":"')
    one, other, *_ = list_segments(barn)
    change_line(one, 9, lambda line: line.replace(b'"mono":', b'"mono":1'))
    other.unlink()
    odd = "the hall [1] {a,b} ä%20?x"
    store.put(hall, odd)
    store.put(barn, "barn")
    urls = [f"s3://bus/{odd}", "s3a://bus/barn/"]

    near = audited(tmp_path, store, "near", "hall", "barn", "--engine", "embedded")
    assert {"broken-chain", "broken-seal", "segment-missing", "torn-tail"} <= {*near.kinds}
    far = audited(tmp_path, store, "far", *urls, "--engine", "embedded")
    assert far.without_places() == near.without_places()
    files = {each["file"] for each in far.found} - {None}
    assert {f"s3://bus/{odd}/{last.name}", f"s3a://bus/barn/{one.name}"} <= files
    stored = sorted(
        f"/bus/{place}/{path.name}" for place, journal in ((odd, hall), ("barn", barn)) for path in journal.iterdir()
    )
    assert store.reads() == stored
    spark = audited(tmp_path, store, "spark", *urls, "--checkpoint", "kept")
    assert spark.without_places() == near.without_places()
    assert store.reads() == stored
    assert audited(tmp_path, store, "again", *urls, "--checkpoint", "kept") == spark
    # Facts of verified segments are kept.
    read = store.reads()
    assert f"/bus/barn/{one.name}" in read
    assert [path for path in read if odd in path] == [f"/bus/{odd}/{last.name}", f"/bus/{odd}/manifest"]


def test_the_past_is_read_there(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in store.variables.items():
        monkeypatch.setenv(name, value)
    journal = tmp_path / "hall"
    write_journal(journal, events=500, server="hall")
    store.put(journal, "hall")
    (service, *_) = re.findall(r'"service.registered".*"service":"([^"]+)"', list_segments(journal)[0].read_text())
    rows = [
        ["timeline", service],
        ["why", "--at", "400", "--service", service, "--json"],
        ["why", "--object", '{"type":"text/plain"}', "--json"],
        ["journal", "state", "--at", "400"],
    ]
    for row in rows:
        said = []
        for place in (str(journal), journal.as_uri(), "s3://bus/hall"):
            assert main([*row, place]) == 0, row
            said.append(capsys.readouterr().out)
        assert said == [said[0]] * 3, row
        assert len(said[0]) > 300, row


def test_what_cannot_be_read_is_one_line(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "0.txt").touch()
    store.put(tmp_path, "hall")
    for name, value in store.variables.items():
        monkeypatch.setenv(name, value)

    def said(url: str) -> str:
        assert job.main([url, "--engine", "embedded", "--out", str(tmp_path / "out")]) == job.NOT_JUDGED
        return capsys.readouterr().err

    why = "bussrv audit: cannot read the journal {}: .*{}.*\n"
    for url, word in {
        "s3://no/x": "NO_SUCH_BUCKET",
        "s3://bus/x": "Path does not exist",
        "s3://bus//x": "Empty",
    }.items():
        assert re.fullmatch(why.format(url, word), said(url))
    assert said("s3a://bus/hall") == "bussrv audit: s3a://bus/hall holds no journal records\n"
    store.admit_nobody()
    assert re.fullmatch(why.format("s3://bus/hall", "INVALID_ACCESS_KEY_ID"), said("s3://bus/hall"))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for other in ("http://127.0.0.1:1", address):
            monkeypatch.setenv("AWS_ENDPOINT_URL", other)
            begun = time.monotonic()
            assert re.fullmatch(why.format("s3://bus/hall", "NETWORK_CONNECTION"), said("s3://bus/hall"))
            assert time.monotonic() - begun < 60


def test_the_page(store: Store, tmp_path: Path) -> None:
    """Its commands, in their order, as they are written; only the port is another one."""
    write_journal(tmp_path / "bussrv-journal", events=1000, server="hall", rotation=Rotation(bytes=100_000))
    names, near, spark, _ = blocks(PAGE, "console")
    (program,) = blocks(PAGE, "python")
    (tmp_path / "upload.py").write_text(program)
    shown = [line.removeprefix("$ ") for line in (names + near + spark).splitlines()]
    begin = len(names.splitlines())
    script = "\n".join(["set -e", *shown[:begin], "python upload.py", *shown[begin:]])
    assert "http://127.0.0.1:5000" in script
    assert "moto_server -p 5000" in (ROOT / PAGE).read_text()
    ran = subprocess.run(
        ["sh", "-c", script.replace("http://127.0.0.1:5000", store.address)],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, CHOSEN)
    assert ran.stdout.count("JOURNAL INTACT: nothing was found\n") == 2
