"""A server and a witness, in processes of their own: seals are cosigned, and an older disk is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from bussrv.journal.checkpoints import read_checkpoint
from bussrv.journal.keys import generate
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import read_manifest
from bussrv.testing.server import RunningServer
from bussrv.transparency.notes import VerifierKey
from bussrv.transparency.witnessing import cosignatures_in
from tests.forked import ForkedServer
from tests.witness.test_program import COMMAND, running

pytestmark = pytest.mark.processes


def told(*words: str) -> str:
    return subprocess.run([COMMAND, "journal", *words], check=True, capture_output=True, text=True).stdout.strip()


def cosigned_sizes(journal: Path, keys: list[VerifierKey]) -> list[int]:
    """The sizes of the checkpoints that are cosigned, each by every one of these keys."""
    manifest, found = read_manifest(journal / MANIFEST_NAME), []
    for entries in manifest.cosigned.values():
        for each in entries:
            checkpoint, note = read_checkpoint(manifest.checkpoints[each.seal].checkpoint or "")
            signed = cosignatures_in(each.signatures.encode(), note.text, keys)
            assert [key for _, key in signed if key.key in keys]
            found.append(checkpoint.size)
    return found


def await_line(server: RunningServer, words: str) -> None:
    """Wait until the server has logged something; perhaps it has before it was ready."""
    while not any(words in line for line in server.lines):
        server.next_line()


def events(journal: Path, name: str) -> list[dict[str, object]]:
    lines = [line for path in sorted(journal.glob("*.jsonl")) for line in path.read_bytes().splitlines()]
    return [each for each in map(json.loads, lines) if each.get("event") == name]


def test_seals_are_cosigned_and_an_older_disk_is_refused(tmp_path: Path) -> None:
    journal, key = tmp_path / "journal", tmp_path / "hall.key"
    generate(key)
    signed = ("--journal-key", str(key), "--journal-origin", "hall.example/journal")
    with ForkedServer(journal, signed) as server:
        server.stop()
    log = told("checkpoint", str(journal), "--verifier-key")
    with running(tmp_path, log_keys=[log]) as witness:
        options = (*signed, "--witness", f"http://127.0.0.1:{witness.port} {witness.keys[0].text}")

        def run(awaited: str) -> None:
            with ForkedServer(journal, options) as server:
                await_line(server, awaited)
                assert server.stop() == 0

        run("the witness attic.example/w1 cosigned")
        first = cosigned_sizes(journal, witness.keys)
        assert len(first) == 1
        assert [(each["witness"], each["size"]) for each in events(journal, "seal.witnessed")] == [
            ("attic.example/w1", *first)
        ]
        shutil.copytree(journal, tmp_path / "older")
        for _ in range(2):
            run("the witness attic.example/w1 cosigned")
        sizes = cosigned_sizes(journal, witness.keys)
        assert sizes == sorted(set(sizes))
        assert sizes[0] == first[0]
        assert len(sizes) == 3
        told("verify", str(journal))
        # The disk of some time ago, which the key still signs.
        shutil.rmtree(journal)
        shutil.copytree(tmp_path / "older", journal)
        run("the witness attic.example/w1 does not cosign: it has cosigned")
        (refused,) = events(journal, "seal.refused")
        assert refused["message"] == f"it has cosigned {sizes[-1]} records, and this journal has {refused['size']}"
        assert cosigned_sizes(journal, witness.keys) == first
        told("verify", str(journal))
