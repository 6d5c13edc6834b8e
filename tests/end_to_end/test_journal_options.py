"""What the options of the journal do to a real server, from the command line and from a configuration file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.client.objects import ObjectsClient
from bussrv.journal.keys import generate
from bussrv.journal.manifest import MANIFEST_NAME, Pruned, Seal
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.pseudonyms import is_pseudonym
from bussrv.journal.reading import read_segments
from bussrv.journal.segment import is_compressed, list_segments
from bussrv.journal.verify import verify
from bussrv.testing.server import RunningServer
from tests.end_to_end.conftest import Start
from tests.end_to_end.journals import events_of
from tests.forked import refused_start
from tests.journal.without_seals import faults_without_seals
from tests.size import further

ways = pytest.mark.parametrize("way", further(["command line", "file"]))


def given(way: str, tmp_path: Path, options: dict[str, Any]) -> Sequence[str]:
    """Options, said in one way or the other; a flag is true."""
    if way == "file":
        values = {name: "true" if value is True else repr(value) for name, value in options.items()}
        path = tmp_path / "bussrv.toml"
        path.write_text("".join(f"{name} = {value}\n" for name, value in values.items()))
        return ("--config", str(path))
    return [f"--{name}" if value is True else f"--{name}={value}" for name, value in options.items()]


def await_line(server: RunningServer, *texts: str) -> None:
    """Wait until all of these were logged."""
    for text in texts:
        while not any(text in line for line in server.lines):
            server.next_line()


def keep_busy(server: RunningServer, changes: int = 20) -> None:
    with ObjectsClient(port=server.port("objects")) as client:
        client.subscribe(user="ann")
        for number in range(changes):
            client.register(f"tv{number}")


def entries(journal: Path, kind: type) -> list[Any]:
    manifest = read_manifest(journal / MANIFEST_NAME)
    assert manifest.findings == []
    return [entry.body for entry in manifest.entries if isinstance(entry.body, kind)]


@ways
def test_size_key_and_compression(start: Start, journal: Path, tmp_path: Path, way: str) -> None:
    public = generate(tmp_path / "key")
    options = {"journal-segment-bytes": 2000, "journal-key": str(tmp_path / "key"), "journal-compress": True}
    server = start(*given(way, tmp_path, options))
    keep_busy(server)
    assert server.stop() == 0
    # What the server had no time for when it stopped is done when it starts.
    assert start(*given(way, tmp_path, options)).stop() == 0
    assert len(list_segments(journal)) > 5
    assert any(map(is_compressed, list_segments(journal)))
    report = verify(journal, public)
    assert (report.faults, report.sealed_seq, report.is_trusted) == ([], report.last_seq, True)
    assert faults_without_seals(journal) == []


@ways
def test_age_and_seal_interval(start: Start, journal: Path, tmp_path: Path, way: str) -> None:
    options = {"journal-segment-age": 2.5, "journal-seal-interval": 0.1}
    server = start(*given(way, tmp_path, options), "--services", "off")
    await_line(server, "sealed segment 1 so far, records 1 to ")
    with ObjectsClient(port=server.port("objects")) as client:
        client.subscribe()
        client.register("tv")
        # Nothing else happens: it is not ended by a record that comes later.
        await_line(server, "sealed segment 1 to its end")
    assert server.stop() == 0
    assert [seal.closed for seal in entries(journal, Seal)].count(True) == 2


@ways
@pytest.mark.parametrize("limit", [{"journal-retain-bytes": 6000}, {"journal-retain-age": 0.001}])
def test_retention(start: Start, journal: Path, tmp_path: Path, way: str, limit: dict[str, Any]) -> None:
    options = {"journal-segment-bytes": 2000, **limit}
    server = start(*given(way, tmp_path, options))
    keep_busy(server)
    await_line(server, "journal: removing segment 1 ")
    assert server.stop() == 0
    # What was said and not done is done now.
    assert start("--services", "off").stop() == 0
    reasons = {"retention-size"} if "journal-retain-bytes" in limit else {"retention-age"}
    assert {f"retention-{each.reason}" for each in entries(journal, Pruned)} == reasons
    told = [event for event in events_of(journal, ev.JournalPruned) if isinstance(event, ev.JournalPruned)]
    assert {event.reason for event in told} == reasons
    report = verify(journal)
    assert (report.faults, report.sealed_seq) == ([], report.last_seq)
    assert faults_without_seals(journal) == []


@ways
def test_pseudonyms(start: Start, journal: Path, tmp_path: Path, way: str) -> None:
    server = start(*given(way, tmp_path, {"journal-pseudonyms": str(tmp_path / "names")}))
    keep_busy(server, 1)
    assert server.stop() == 0
    assert faults_without_seals(journal) == []
    written = b"".join(path.read_bytes() for path in list_segments(journal))
    assert b'"ann"' not in written
    (identified,) = events_of(journal, ev.SessionIdentified)
    assert is_pseudonym(identified.claimed or "")


def ended(journal: Path, tmp_path: Path, *options: str) -> str:
    """What a start says that does not succeed."""
    return refused_start(tmp_path, "--journal", str(journal), *options)


@ways
def test_salvage(start: Start, journal: Path, tmp_path: Path, way: str) -> None:
    server = start("--services", "off")
    keep_busy(server, 5)
    assert server.stop() == 0
    (segment,) = list_segments(journal)
    text = segment.read_bytes()
    segment.chmod(0o640)
    segment.write_bytes(text.replace(b'"tv3"', b'"TV3"', 1))
    assert "start once with --journal-salvage" in ended(journal, tmp_path)
    server = start(*given(way, tmp_path, {"journal-salvage": True}))
    # It is not advised to do what was done.
    (said,) = [line for line in server.lines if "a new chain begins after this damage" in line]
    assert said.rstrip().endswith("on the journal is in doubt.")
    assert server.stop() == 0
    found = [record.event for record in read_segments(list_segments(journal)[-1:])]
    assert isinstance(found[-1], ev.ServerStopped)
    assert [event.segment for event in found if isinstance(event, ev.JournalSalvaged)] == [1]
    # It is not needed again.
    assert start("--services", "off").stop() == 0


def test_keys_that_cannot_be_used(journal: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert f"there is no key {missing}; bussrv journal keygen" in ended(journal, tmp_path, "--journal-key", "missing")
    generate(tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    assert "others than its owner may use the private key" in ended(journal, tmp_path, "--journal-key", "key")
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "key.pub").chmod(0o600)
    assert "is not an Ed25519 private key" in ended(journal, tmp_path, "--journal-key", "key.pub")
    journal.mkdir(exist_ok=True)
    generate(journal / "key")
    (tmp_path / "link").symlink_to(journal / "key")
    for key in (journal / "key", tmp_path / "link"):
        said = ended(journal, tmp_path, "--journal-key", str(key))
        assert f"the private key {key} lies in the journal directory {journal}" in said
    assert not list_segments(journal)


def test_a_key_that_is_lost(start: Start, journal: Path, tmp_path: Path) -> None:
    public = generate(tmp_path / "key")
    generate(tmp_path / "other")
    assert start("--journal-key", str(tmp_path / "key")).stop() == 0
    signed = f"is signed with the key {public.fingerprint}, so it cannot go on with"
    assert f"{signed} no key" in ended(journal, tmp_path)
    assert f"{signed} the key" in ended(journal, tmp_path, "--journal-key", "other")
    assert start("--journal-key", str(tmp_path / "key")).stop() == 0
    assert verify(journal, public).faults == []


def test_pseudonym_files_that_cannot_be_used(journal: Path, tmp_path: Path) -> None:
    journal.mkdir()
    names = journal / "names"
    said = ended(journal, tmp_path, "--journal-pseudonyms", str(names))
    assert f"the key file {names} lies in the journal directory {journal}" in said
    assert not names.exists()
    (tmp_path / "names").touch(mode=0o644)
    assert "others than its owner may use the key file" in ended(journal, tmp_path, "--journal-pseudonyms", "names")
    assert f"cannot use the key file {tmp_path / 'no/names'}" in ended(
        journal, tmp_path, "--journal-pseudonyms", "no/names"
    )


def test_a_start_that_fails_leaves_the_journal_as_it_was(start: Start, journal: Path, tmp_path: Path) -> None:
    keep_busy(server := start("--services", "off"), 5)
    server.process.kill()
    server.wait()
    before = {path.name: path.read_bytes() for path in journal.iterdir()}
    assert "is not a stream endpoint" in ended(journal, tmp_path, "--spp", "bogus:1", "--journal-compress")
    assert {path.name: path.read_bytes() for path in journal.iterdir()} == before
