"""What witnesses and kept checkpoints show of journals, the audit finds as ``verify`` does, by both engines."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bussrv.audit.job import Verdict, audit
from bussrv.cli.main import main as bussrv
from bussrv.errors import JournalError
from bussrv.journal.evidence.witnesses import GRACE, Covered, Others, Quorum
from bussrv.journal.verify import verify
from bussrv.transparency.checkpoints import parse_checkpoint
from bussrv.transparency.cosignatures import SigningKey
from bussrv.transparency.notes import Note, NoteSignature
from tests.audit.commands import called
from tests.audit.conftest import Rows, by_workers, of_spark_alone, without_patience, without_report
from tests.audit.journals import write_journal
from tests.docs.pages import rows
from tests.incidents.histories import records
from tests.journal.support import FakeClock
from tests.journal.test_witnesses import KEY, MINUTE, ONE, TWO, Server, honest
from tests.tamperings.copies import Copy

pytestmark = pytest.mark.dear

QUORUM = Quorum((ONE.verifier, TWO.verifier), 2)
NOW = FakeClock().utc() + 10 * GRACE
OURS = {"not-witnessed", "other-history", "broken-tree", "bad-manifest"}


def write_honest(root: Path) -> list[Note]:
    server = honest(root / "honest", name="honest")
    server.stop()
    return [each.note for each in server.checkpoints()[::2]]


def write_rewritten(root: Path) -> list[Note]:
    """With the key, everything is made anew, and fits."""
    server = Server(root / "rewritten", "rewritten")
    server.write("a", "b", "c", witnesses=[ONE, TWO])
    before = shutil.copytree(server.directory, root / "before")
    server.write("the truth", *"defghij" * 2, witnesses=[ONE, TWO])
    kept = server.checkpoints()[-1].note
    shutil.rmtree(server.directory)
    before.rename(server.directory)
    liar = Server(server.directory, "rewritten")
    liar.clock.advance(MINUTE)
    liar.write("a lie", *"defghij" * 2, *"klm" * 9)
    liar.stop()
    return [kept]


def write_cut(root: Path) -> list[Note]:
    """The disk was rolled back, or the end was cut off with its seals."""
    server = honest(root / "whole", count=10, name="cut")
    shutil.copytree(server.directory, root / "cut")
    server.write(*"abcde", witnesses=[ONE, TWO])
    note = server.checkpoints()[-1].note
    shutil.rmtree(server.directory)
    return [note]


def write_twin(root: Path) -> list[Note]:
    """One version is shown to one party, and this one to the other."""
    server = honest(root / "first", count=5, name="twin")
    twin = Server(shutil.copytree(server.directory, root / "twin"), "twin")
    twin.clock.advance(MINUTE)
    server.write("to one", "party", witnesses=[ONE, TWO])
    twin.write("to the", "other")
    note = server.checkpoints()[-1].note
    shutil.rmtree(server.directory)
    return [note]


def write_forged(root: Path) -> list[Note]:
    """A record is another one. Trees, checkpoints and cosignatures stay; the rest is made to fit with the key."""
    server = honest(root / "forged", name="forged")
    server.stop()
    copy = Copy(server.directory)
    copy.segments[1][3] = copy.segments[1][3].replace(b"record 2", b"record 9")
    copy._tree = lambda *_: None  # type: ignore[method-assign]
    copy.without_seals()
    copy.chain_from(1)
    copy.seal_anew(KEY)
    copy.save()
    return []


def write_lone(root: Path) -> list[Note]:
    """One of the two witnesses was away."""
    honest(root / "lone", witnesses=[ONE], name="lone").stop()
    return []


def write_wrong(root: Path) -> list[Note]:
    """A cosignature is wrong."""
    server = honest(root / "wrong", witnesses=[ONE], name="wrong")
    seal = server.checkpoints()[-1]
    right = TWO.sign(seal.note.text, 5)
    server.sealer.cosign(seal.hash, NoteSignature(right.name, right.id, right.value[:-1] + b"x").line)
    return []


JOURNALS: tuple[Callable[[Path], list[Note]], ...] = (
    *(write_honest, write_rewritten, write_cut, write_twin, write_forged, write_lone, write_wrong),
)


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Note]]:
    root = tmp_path_factory.mktemp("witnesses")
    return root, [note for write in JOURNALS for note in write(root)]


def audited(spark: SparkSession | None, root: Path, kept: list[Note], out: Path, **more: Path) -> Verdict:
    others = Others(quorum=QUORUM, kept=tuple(kept), now=NOW)
    with without_report(), without_patience():
        return audit(spark, sorted(root.iterdir()), out, trusted=KEY.public, others=others, **more)


Found = dict[str, set[tuple[str, int | None, int | None]]]


def found(findings: Rows) -> Found:
    by_server: Found = {}
    for each in findings:
        if each["kind"] in OURS:
            by_server.setdefault(each["server"], set()).add((each["kind"], each["first_seq"], each["last_seq"]))
    return by_server


def found_by_verify(root: Path, kept: list[Note]) -> Found:
    by_server: Found = {}
    for directory in root.iterdir():
        own = [each for each in kept if parse_checkpoint(each.text).origin.endswith(f"/{directory.name}")]
        report = verify(directory, KEY.public, others=Others(quorum=QUORUM, kept=tuple(own), now=NOW))
        for each in report.faults:
            by_server.setdefault(directory.name, set()).add((each.code, each.seq, each.last_seq))
    return by_server


@pytest.mark.parametrize("engine", ["embedded", "spark"])
def test_the_audit_finds_what_verify_finds(
    engine: str,
    spark: SparkSession,
    journals: tuple[Path, list[Note]],
    tmp_path: Path,
    read_table: Callable[[Path, str], Rows],
) -> None:
    root, kept = journals
    if engine == "spark":
        with by_workers():
            verdict = audited(spark, root, kept, tmp_path / "out")
    else:
        verdict = audited(None, root, kept, tmp_path / "out", checkpoint=tmp_path / "kept")
    findings = found(read_table(tmp_path / "out", "findings"))
    by_verify = found_by_verify(root, kept)
    # Of older segments, the audit leaves out checkpoints that later ones superseded, unless witnesses cosigned them.
    assert {("broken-tree", 1, 13), ("broken-tree", 14, 24)} == findings["forged"] < by_verify.pop("forged")
    assert {name: each for name, each in findings.items() if name != "forged"} == by_verify
    assert findings.keys() == {"rewritten", "cut", "twin", "forged", "lone", "wrong"}
    assert findings["cut"] == {("other-history", 11, 15)}
    covered = {
        name: [
            Covered(each["first_seq"], each["last_seq"], (*each["witnesses"],))
            for each in verdict.summary["witnessed"]
            if each["journal"] == str(root / name)
        ]
        for name in ("honest", "lone", "rewritten")
    }
    one, two = ONE.name, TWO.name
    assert covered["honest"] == [Covered(1, 30, (one, two))]
    assert covered["lone"] == [Covered(1, 30, (one,))]
    assert [(each.first_seq, each.witnesses) for each in covered["rewritten"]] == [(1, (one, two)), (4, ())]
    if engine == "embedded":
        # From what was kept, the same.
        again = audited(None, root, kept, tmp_path / "again", checkpoint=tmp_path / "kept")
        assert found(read_table(tmp_path / "again", "findings")) == findings
        assert again.summary["witnessed"] == verdict.summary["witnessed"]


def test_the_command_names_witnesses_and_checkpoints(tmp_path: Path) -> None:
    server = honest(tmp_path / "hall")
    server.stop()
    newest = server.checkpoints()[-1]
    (tmp_path / "kept").write_text(newest.text)
    witnesses = ("--witness-key", ONE.verifier.text, "--witness-key", TWO.verifier.text)
    words = ("audit", "hall", "--engine", "embedded", *witnesses, "--kept-checkpoint", "kept")
    ended = called(None, bussrv, tmp_path, *words)
    assert not OURS & json.loads((tmp_path / "bussrv-audit" / "summary.json").read_text())["kinds"].keys()
    assert f"records 1 to 30 are cosigned by {ONE.name}, {TWO.name}" in ended.stdout
    page = (tmp_path / "bussrv-audit" / "report.html").read_text()
    assert ONE.name in page
    summary = json.loads((tmp_path / "bussrv-audit" / "summary.json").read_text())
    assert summary["command"].count("--witness-key") == 2
    assert "--kept-checkpoint kept" in summary["command"]
    for more, reason in (
        (("--quorum", "3"), "--quorum 3 is larger than the number of witnesses of --witness-key, 2"),
        (("--witness-key", "nonsense"), "not a verifier key"),
        (("--kept-checkpoint", "none"), "cannot read none"),
    ):
        ended = called(None, bussrv, tmp_path, *words, *more)
        assert ended.returncode == 2
        assert reason in ended.stderr


def test_a_checkpoint_of_no_journal_and_one_of_a_stranger(tmp_path: Path) -> None:
    (tmp_path / "journals").mkdir()
    server = honest(tmp_path / "journals" / "hall", count=5)
    other = honest(tmp_path / "other", name="barn", count=5).checkpoints()[-1].note
    # A witness signed it, too.
    verdict = audited(None, tmp_path / "journals", [other], tmp_path / "out")
    (finding,) = [each for each in verdict.summary["findings"] if each["kind"] in OURS]
    assert finding["kind"] == "other-history"
    assert "is of another journal" in finding["message"]
    text = server.checkpoints()[-1].note.text
    strange = Note(text, (SigningKey("three.example/w", ONE.type, bytes(32)).sign(text, 1),))
    with pytest.raises(JournalError, match="signed neither by"):
        audited(None, tmp_path / "journals", [strange], tmp_path / "strange")


@pytest.mark.long
def test_spark_makes_the_table_of_witnesses(
    spark: SparkSession, read_table: Callable[[Path, str], Rows], tmp_path: Path
) -> None:
    steps = [("w/1", "422"), ("w/1", None), ("w/2", "away"), ("w/1", "once"), ("w/1", "again"), ("w/3", None)]
    write_journal(tmp_path / "hall", records("hall", [("witness", *each) for each in steps]))
    with without_report(), without_patience():
        audit(None, [tmp_path / "hall"], tmp_path / "here")
        with of_spark_alone():
            audit(spark, [tmp_path / "hall"], tmp_path / "there")
    here, there = (
        sorted(read_table(tmp_path / name, "witnesses"), key=lambda row: str(row["witness"]))
        for name in ("here", "there")
    )
    assert here == there
    assert [(row["witness"], row["cosigned"], row["refused"], row["lasts"], row["message"]) for row in here] == [
        ("w/1", 1, 3, True, "again"),
        ("w/2", 0, 1, True, "away"),
        ("w/3", 1, 0, False, None),
    ]


PAGE = "docs/reference/audit/tampering.md"

TAMPERINGS = (
    "a record was changed, and everything after it made anew with the key",
    "the same, but trees, checkpoints and cosignatures were kept",
    "the end was cut off, with its seals",
    "the disk was rolled back to an older copy",
    "two versions were shown to two parties",
    "a cosignature was forged or changed",
    "the signatures of one witness were counted twice",
    "a checkpoint was made up, to accuse the server",
)


def test_the_page_says_who_notices(journals: tuple[Path, list[Note]]) -> None:
    """The table of what can be done with the key and the disk has the codes that each outsider finds."""
    root, kept = journals
    notes = {parse_checkpoint(each.text).origin.rpartition("/")[2]: each for each in kept}

    def codes(name: str, quorum: Quorum | None = None, note: Note | None = None) -> set[str]:
        known = Others(quorum=quorum, kept=() if note is None else (note,), now=NOW)
        return {each.code for each in verify(root / name, KEY.public, others=known).faults}

    alone = {each: codes(each) for each in ("rewritten", "cut", "twin", "wrong")}
    assert not any(alone.values())
    for name in ("rewritten", "cut", "twin"):
        assert codes(name, note=notes[name]) == {"other-history"}
    expected = [
        codes("rewritten", QUORUM) | codes("rewritten", note=notes["rewritten"]),
        codes("forged"),
        codes("cut", note=notes["cut"]),
        codes("cut", QUORUM),
        codes("twin", note=notes["twin"]),
        codes("wrong", QUORUM) - {"not-witnessed"},
        set(),
        set(),
    ]
    table = [row for row in rows(PAGE) if len(row) == 2 and row[0] in TAMPERINGS]
    assert [row[0] for row in table] == list(TAMPERINGS)
    assert [set(re.findall(r"`([a-z]+-[a-z]+)`", row[1])) for row in table] == expected
    # Each witness counts once, whichever of its keys it used. For a checkpoint that was made up, see below.
    twice = SigningKey(ONE.name, ONE.type, bytes(32)).verifier
    assert codes("lone", Quorum((ONE.verifier, twice), 1)) == set()
    assert codes("lone", Quorum((ONE.verifier, twice), 2)) == codes("lone", QUORUM) == {"not-witnessed"}
