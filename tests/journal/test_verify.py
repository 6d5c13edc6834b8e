"""Verifying: journals in which nothing is wrong, and journals that somebody tampered with."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bussrv.journal import bounds
from bussrv.journal import verify as module
from bussrv.journal.chain import line_hash
from bussrv.journal.keys import PublicKey
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.segment import list_segments, segment_name
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.journal.verify import JournalFault, Report, verify
from tests.inspection.journals import KEY, NEXT_KEY, STRANGER, House, clean_journal
from tests.size import FULL, sample, sized
from tests.tamperings.catalogue import KINDS as TAMPERINGS
from tests.tamperings.copies import Copy, changed, flipped
from tests.tamperings.kinds import Kind

KINDS = ("signed", "growing", "unsigned", "chain", "compressed")

Fresh = Callable[..., Copy]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)


def make(directory: Path, kind: str, server: str = "hall") -> House:
    """A journal of four segments or five, over three boots; several snapshots have several parts."""
    house = House(
        directory,
        key=KEY if kind in ("signed", "growing", "compressed") else None,
        seals=kind != "chain",
        policy=UpkeepPolicy(compress=kind == "compressed", seal_interval=2.0),
        seed=7,
        server=server,
    )
    house.live_three_boots(unsealed=4 if kind == "growing" else 0)
    return house


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("journals")
    return {kind: make(base / kind, kind).directory for kind in KINDS}


@pytest.fixture
def fresh(originals: dict[str, Path], tmp_path: Path) -> Fresh:
    """Copies of those, one after the other in the same place."""

    def copy(kind: str) -> Copy:
        place = tmp_path / "journal"
        if place.exists():
            shutil.rmtree(place)
        return Copy(shutil.copytree(originals[kind], place))

    return copy


def trusted(kind: str) -> PublicKey | None:
    return None if kind in ("unsigned", "chain") else KEY.public


def look(copy: Copy, kind: str) -> Report:
    copy.save()
    return verify(copy.directory, trusted(kind))


def places(copy: Copy) -> Iterator[tuple[int, int]]:
    """Every record of a journal: the segment, and the index of its line."""
    for number in copy.numbers:
        yield from ((number, index) for index in range(copy.begin(number), len(copy.segments[number])))


def blamed(report: Report, most: int = 6) -> list[JournalFault]:
    """The faults: some, and no more than one wrong may lead to: a line, a number, the chain, a seal, a header."""
    assert 0 < len(report.faults) <= most, report.faults
    return report.faults


def named(report: Report, name: str, line: int | None = None, seq: int | None = None, most: int = 6) -> None:
    """A fault names the file, and where one record is at stake, it or one beside it, or a segment that holds it."""
    found = [fault for fault in blamed(report, most) if fault.path == name]
    assert found, report.faults
    if line is not None:
        assert any(fault.line in (line - 1, line, line + 1, None) for fault in found), (line, report.faults)
    if seq is not None:
        assert any(holds(fault, seq) for fault in found), (seq, report.faults)


def holds(fault: JournalFault, seq: int) -> bool:
    """Whether a fault is about a record, or one beside it."""
    return fault.seq is not None and fault.seq - 2 <= seq <= (fault.last_seq or fault.seq) + 2


# Nothing is wrong.


@pytest.mark.parametrize("chunk", range(sized(20)))
def test_no_false_alarm(tmp_path: Path, chunk: int) -> None:
    for seed in range(chunk * 10, chunk * 10 + 10):
        house = clean_journal(tmp_path / str(seed), seed)
        key = None if house.key is None else KEY.public
        report = verify(house.directory, key)
        assert (seed, report.faults) == (seed, [])
        assert report.last_seq == house.records[-1].seq
        if seed % 3 == 0:
            copy = shutil.copytree(house.directory, tmp_path / f"copy-{seed}")
            assert verify(copy, key) == report


@pytest.mark.parametrize("kind", KINDS)
def test_the_journals_that_are_tampered_with_were_whole(fresh: Fresh, kind: str) -> None:
    report = look(fresh(kind), kind)
    assert (report.faults, report.segments) == ([], 4)
    unsealed = {"growing": 4, "chain": report.last_seq}.get(kind, 0)
    assert (report.last_seq or 0) - (report.sealed_seq or 0) == unsealed
    assert any("parts" in line for line in map(repr, fresh(kind).segments[1]))


@pytest.mark.parametrize("kind", ["signed", "compressed", "unsigned", "growing", "chain"])
def test_what_is_not_sealed_may_be_a_fault(fresh: Fresh, kind: str) -> None:
    copy = fresh(kind)
    faults = verify(copy.directory, trusted(kind), to_the_end=True).faults
    assert [fault.path for fault in faults] == {
        "growing": [copy.name(copy.numbers[-1])],
        "chain": [copy.name(number) for number in copy.numbers],
    }.get(kind, [])


# A line is changed.


@pytest.mark.dear
@pytest.mark.parametrize("kind", KINDS)
def test_a_byte_of_any_line(fresh: Fresh, kind: str) -> None:
    choose = random.Random(kind)
    for number in fresh(kind).numbers:
        for index in range(len(fresh(kind).segments[number])):
            copy = fresh(kind)
            line = copy.segments[number][index]
            where = choose.randrange(len(line))
            seq = copy.record(number, index) if b',"seq":' in line[:120] and where < 80 else None
            copy.segments[number][index] = flipped(line, where)
            if is_beyond_proof(copy, kind, number, index):
                continue
            named(look(copy, kind), copy.name(number), index + 1, seq)


def is_beyond_proof(copy: Copy, kind: str, number: int, index: int) -> bool:
    """Nothing vouches for the last line of what is not sealed: no line behind it, and no seal."""
    is_last = number == copy.numbers[-1] and index == len(copy.segments[number]) - 1
    return is_last and kind in ("growing", "chain")


@pytest.mark.parametrize("which", ["header", "part", "record", "seal", "key"])
def test_bytes_all_over_a_line(fresh: Fresh, which: str) -> None:
    original = fresh("signed")
    number = original.numbers[-1]
    index = {
        "header": 0,
        "part": 1,
        "record": original.begin(number) + 1,
        "seal": len(original.manifest) // 2,
        "key": 0,
    }[which]
    lines = original.manifest if which in ("seal", "key") else original.segments[number]
    path = original.manifest_path if which in ("seal", "key") else original.paths[number]
    path.chmod(0o640)
    line = lines[index]
    for where in sample(range(0, len(line), 3)):
        path.write_bytes(b"".join([*lines[:index], flipped(line, where), *lines[index + 1 :]]))
        report = verify(original.directory, KEY.public)
        if which == "key":
            # Without its first key, none of it is signed by anybody who is known.
            assert report.faults
            continue
        named(report, path.name, index + 1)


# Lines that are dropped, repeated, put in, or moved.


OF_RECORDS = [TAMPERINGS[name] for name in (
    "a record dropped", "a record repeated", "a record repeated at the end", "two records swapped",
    "a record moved to the end", "a record moved to the beginning", "a record moved to another segment",
    "a record of another segment put in", "junk put in", "an empty line put in", "a record put in",
    "the beginning of a record instead of it", "two lines joined", "a line in two", "a space after every colon",
)]  # fmt: skip

OF_ANY_LINE = (
    "a record dropped", "a record repeated", "two records swapped", "junk put in",
    "the beginning of a record instead of it", "two lines joined",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["signed", "growing", "chain"])
@pytest.mark.parametrize("tampering", OF_RECORDS, ids=lambda each: each.name)
def test_records(fresh: Fresh, kind: str, tampering: Kind) -> None:
    step = 1 if kind == "signed" and FULL else 3
    chosen = list(places(fresh(kind)))[OF_RECORDS.index(tampering) % step :: step]
    for number, index in sample(chosen, 2, first=OF_RECORDS.index(tampering)):
        copy = fresh(kind)
        original = list(copy.segments[number])
        seq = copy.record(number, index)
        tampering.tamper(copy, number, index)
        if copy.segments[number] == original or is_beyond_notice(kind, copy, number, original):
            continue
        report = look(copy, kind)
        assert any(fault.segment == number for fault in blamed(report, most=6)), report.faults
        if tampering.name not in ("a record repeated at the end", "a record moved to another segment"):
            assert any(index <= (fault.line or 0) <= index + 3 or holds(fault, seq) for fault in report.faults), (
                tampering.name,
                seq,
                report.faults,
            )


def is_beyond_notice(kind: str, copy: Copy, number: int, original: list[bytes]) -> bool:
    """Of what is not sealed yet, the end can be cut off, and the last line changed."""
    if kind not in ("growing", "chain") or number != copy.numbers[-1]:
        return False
    lines = copy.segments[number]
    return (
        lines[: len(original) - 1] == original[:-1]
        and len(lines) <= len(original)
        and lines[-1].endswith((b"\n", b" "))
    )


@pytest.mark.dear
@pytest.mark.parametrize("kind", ["signed", "compressed", "chain"])
@pytest.mark.parametrize("name", OF_ANY_LINE)
def test_snapshots_and_headers(fresh: Fresh, kind: str, name: str) -> None:
    for number in fresh(kind).numbers:
        for index in range(fresh(kind).begin(number)):
            copy = fresh(kind)
            TAMPERINGS[name].tamper(copy, number, index)
            assert any(fault.segment == number for fault in blamed(look(copy, kind), most=8))


# Segments.


@pytest.mark.parametrize("kind", KINDS)
def test_a_segment_is_gone(fresh: Fresh, kind: str) -> None:
    for number in fresh(kind).numbers:
        copy = fresh(kind)
        del copy.segments[number]
        report = look(copy, kind)
        if kind == "chain" and number == max(copy.paths):
            assert not report.faults
            continue
        fault = blamed(report, most=2)[0]
        assert fault.seq == number
        if kind != "chain":
            assert fault.path == segment_name(number)
            assert "the segment is missing, with the records" in fault.message


@pytest.mark.dear
@pytest.mark.parametrize("kind", ["signed", "growing", "chain"])
def test_a_segment_is_cut(fresh: Fresh, kind: str) -> None:
    """At each line, and in the middle of each."""
    for number in fresh(kind).numbers:
        for index in range(len(fresh(kind).segments[number])):
            for kept in (0, 50)[: 1 + index % 2]:
                copy = fresh(kind)
                lines = copy.segments[number]
                copy.segments[number] = [*lines[:index], lines[index][:kept]]
                report = look(copy, kind)
                if number == copy.numbers[-1] and (kind == "chain" or (kind == "growing" and index >= len(lines) - 4)):
                    assert not report.faults or index < begin_of(lines)
                else:
                    named(report, copy.name(number), most=6)


def begin_of(lines: list[bytes]) -> int:
    return next(index for index, line in enumerate(lines) if b',"seq":' in line[:120])


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_segment(fresh: Fresh, kind: str) -> None:
    for number in fresh(kind).numbers:
        copy = fresh(kind)
        copy.segments[number] = []
        named(look(copy, kind), copy.name(number))


@pytest.mark.parametrize("kind", ["signed", "growing", "chain"])
def test_all_records_of_an_emptied_first_segment_are_named(fresh: Fresh, kind: str) -> None:
    """A seal may be about some of them only."""
    copy = fresh(kind)
    first, second = copy.numbers[:2]
    copy.segments[first] = []
    gaps = [each for each in look(copy, kind).faults if each.code == "seq-gap"]
    assert [(each.seq, each.last_seq) for each in gaps] == [(first, second - 1)]
    assert gaps[0].message == f"server hall: records {first} to {second - 1} are missing"


@pytest.mark.parametrize("kind", ["signed", "growing"])
def test_all_records_of_a_missing_sealed_first_segment_are_named(fresh: Fresh, kind: str) -> None:
    copy = fresh(kind)
    first, second = copy.numbers[:2]
    del copy.segments[first]
    gaps = [each for each in look(copy, kind).faults if each.code == "seq-gap"]
    assert [(each.seq, each.last_seq) for each in gaps] == [(first, second - 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_segment_without_records(fresh: Fresh, kind: str) -> None:
    for number in fresh(kind).numbers[:-1]:
        copy = fresh(kind)
        del copy.segments[number][copy.begin(number) :]
        named(look(copy, kind), copy.name(number), most=6)


@pytest.mark.parametrize("kind", KINDS)
def test_two_segments_change_places(fresh: Fresh, kind: str) -> None:
    for one, other in [(1, 2), (2, 3), (0, 3)]:
        copy = fresh(kind)
        first, second = copy.numbers[one], copy.numbers[other]
        copy.segments[first], copy.segments[second] = copy.segments[second], copy.segments[first]
        report = look(copy, kind)
        named(report, copy.name(first), 1, most=10)
        named(report, copy.name(second), 1, most=10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_segment_of_another_server(fresh: Fresh, tmp_path: Path, kind: str) -> None:
    stranger = Copy(make(tmp_path / "stranger", kind, server="loft").directory)
    assert stranger.numbers == fresh(kind).numbers
    for number in stranger.numbers:
        copy = fresh(kind)
        copy.segments[number] = stranger.segments[number]
        report = look(copy, kind)
        if kind == "chain" and number == copy.numbers[-1]:
            # Without seals, nothing tells which of two segments that do not fit is the wrong one.
            assert f"or the header of segment {number}" in blamed(report, most=1)[0].message
        else:
            named(report, copy.name(number), most=6)


@pytest.mark.parametrize("kind", ["signed", "compressed", "unsigned", "growing"])
def test_a_file_that_nobody_sealed(fresh: Fresh, kind: str) -> None:
    """It goes on where the journal ended, and each of its lines holds the hash of the one before it."""
    copy = fresh(kind)
    last = copy.numbers[-1]
    number = copy.record(last, len(copy.segments[last]) - 1) + 1
    again = House(copy.directory, seals=False)
    again.boot()
    again.go_on(4)
    again.stop()
    report = verify(copy.directory, trusted(kind))
    assert any("nothing of it is sealed" in fault.message for fault in blamed(report, most=2))
    assert report.faults[-1].path == segment_name(number)
    assert report.faults[-1].seq == number


@pytest.mark.parametrize("signer", [None, STRANGER])
def test_a_file_that_a_stranger_sealed(fresh: Fresh, signer: object) -> None:
    copy = fresh("signed")
    again = House(copy.directory, seals=False)
    again.boot()
    again.stop()
    copy = Copy(copy.directory)
    copy.add_entry(signer, **copy.seal_of(copy.numbers[-1]))  # type: ignore[arg-type]
    report = look(copy, "signed")
    named(report, MANIFEST_NAME, len(copy.manifest))
    named(report, copy.name(copy.numbers[-1]))


@pytest.mark.parametrize("signer", [None, STRANGER])
def test_a_removal_that_a_stranger_says_was_retention(fresh: Fresh, signer: object) -> None:
    copy = fresh("signed")
    number = copy.numbers[0]
    seal = copy.seal_of(number)
    said = {name: seal[name] for name in ("segment", "last_seq", "bytes", "digest")}
    copy.add_entry(signer, kind="pruned", reason="age", **said)  # type: ignore[arg-type]
    del copy.segments[number]
    report = look(copy, "signed")
    named(report, MANIFEST_NAME, len(copy.manifest))
    named(report, copy.name(number))


@pytest.mark.parametrize("kind", ["signed", "growing"])
def test_the_unfinished_end_under_the_name_of_a_segment(fresh: Fresh, kind: str) -> None:
    copy = fresh(kind)
    path = copy.directory / segment_name(1000)
    for text in (b'{"v":2,"prev":"00', b'{"v":2,"prev":"00\n'):
        path.write_bytes(text)
        named(verify(copy.directory, trusted(kind)), path.name, 1)


def test_a_name_that_is_none(fresh: Fresh) -> None:
    copy = fresh("signed")
    shutil.copy(copy.paths[1], copy.directory / "1000.jsonl")
    assert any(fault.path == "1000.jsonl" for fault in verify(copy.directory, KEY.public).faults)


def test_a_compressed_segment_that_is_damaged(fresh: Fresh) -> None:
    for number in fresh("compressed").numbers:
        data = fresh("compressed").paths[number].read_bytes()
        choose = random.Random(number)
        cuts = [data[:size] for size in (0, 5, 12, len(data) // 2, len(data) - 9, len(data) - 1)]
        flips = [flipped(data, choose.randrange(20, len(data))) for _ in range(10)]
        for damaged in [*cuts, *flips, b"junk", data + b"junk", data + data]:
            path = fresh("compressed").paths[number]
            path.chmod(0o640)
            path.write_bytes(damaged)
            named(verify(path.parent, KEY.public), path.name, most=10)


def test_compressed_and_as_it_was_and_not_the_same(fresh: Fresh) -> None:
    copy = fresh("signed")
    path = copy.paths[copy.numbers[1]]
    twin = path.with_name(path.name + ".gz")
    twin.write_bytes(gzip.compress(path.read_bytes()))
    assert verify(copy.directory, KEY.public).faults == []
    for data in (gzip.compress(path.read_bytes() + b"\n"), gzip.compress(path.read_bytes())[:-3], b""):
        twin.write_bytes(data)
        named(verify(copy.directory, KEY.public), twin.name, most=1)


# Who forges knows how it is done.


@pytest.mark.dear
@pytest.mark.parametrize("kind", ["signed", "compressed", "growing", "unsigned", "chain"])
def test_a_record_is_forged_and_the_chain_made_anew(fresh: Fresh, kind: str) -> None:
    for number, index in list(places(fresh(kind)))[::3]:
        for how in ("segment", "next", "all"):
            copy = fresh(kind)
            copy.forge(number, index, changed)
            if how == "all":
                copy.chain_from(number)
            else:
                last = copy.chain(number)
                behind = [each for each in copy.numbers if each > number]
                if how == "next" and behind:
                    copy.chain(behind[0], last)
            is_unsealed = number == copy.numbers[-1] and (
                kind == "chain" or (kind == "growing" and index >= len(copy.segments[number]) - 4)
            )
            report = look(copy, kind)
            if is_unsealed or (kind == "chain" and how == "all"):
                assert not report.faults
            else:
                assert blamed(report, most=6)


@pytest.mark.parametrize("signer", [None, STRANGER, NEXT_KEY])
def test_everything_is_sealed_again(fresh: Fresh, signer: object) -> None:
    """Only who knows the key, or has noted a seal, can tell."""
    for number in fresh("signed").numbers:
        copy = fresh("signed")
        noted = copy.last_seal
        copy.forge(number, copy.begin(number), changed)
        copy.without_seals()
        copy.chain_from(copy.numbers[0])
        if signer is None:
            del copy.manifest[0]
            copy.manifest = [
                line.replace(b'"entry":%d,' % (i + 2), b'"entry":%d,' % (i + 1), 1)
                for i, line in enumerate(copy.manifest)
            ]
        copy.seal_anew(signer)  # type: ignore[arg-type]
        copy.save()
        assert verify(copy.directory).faults == []
        assert blamed(verify(copy.directory, KEY.public), most=1)[0].path == MANIFEST_NAME
        assert blamed(verify(copy.directory, None, [noted]), most=1)[0].path == MANIFEST_NAME


@pytest.mark.parametrize("kind", ["signed", "growing"])
def test_what_was_sealed_once_stays_sealed(fresh: Fresh, kind: str) -> None:
    """Not even who has the key can change what a seal was about and keep the seal, however later seals fit."""
    tried = 0
    for index, line in enumerate(fresh(kind).manifest):
        seal = json.loads(line)
        if seal["kind"] != "seal":
            continue
        tried += 1
        copy = fresh(kind)
        number = seal["segment"]
        copy.forge(number, copy.begin(number), changed)
        copy.chain_from(number)
        copy.seal_anew(KEY, since=index + 1)
        copy.save()
        assert blamed(verify(copy.directory, None, [line_hash(line)]), most=6)
    assert tried > 3


@pytest.mark.parametrize("signer", [None, STRANGER, NEXT_KEY])
@pytest.mark.parametrize("is_introduced", [False, True])
def test_the_rest_is_sealed_again(fresh: Fresh, signer: object, is_introduced: bool) -> None:
    """The entries before the change are left as they are; those behind it are signed with another key, or with none."""
    for since in range(1, len(fresh("signed").manifest)):
        copy = fresh("signed")
        number = copy.numbers[-1]
        copy.forge(number, copy.begin(number), changed)
        copy.chain_from(number)
        rest = copy.manifest[since:]
        del copy.manifest[since:]
        if is_introduced and isinstance(signer, type(KEY)):
            copy.add_entry(signer, kind="key", public=signer.public.text)
        copy.manifest += rest
        copy.seal_anew(signer, since)  # type: ignore[arg-type]
        copy.save()
        for key in (None, KEY.public):
            assert any(fault.path == MANIFEST_NAME for fault in verify(copy.directory, key).faults)


@pytest.mark.parametrize("signer", [None, STRANGER, KEY])
def test_an_older_segment_is_sealed_again(fresh: Fresh, signer: object) -> None:
    """Not even who has the key can do that behind its closed seal."""
    for number in fresh("signed").numbers:
        copy = fresh("signed")
        copy.forge(number, copy.begin(number), changed)
        copy.chain_from(number)
        copy.add_entry(signer, **copy.seal_of(number))  # type: ignore[arg-type]
        named(look(copy, "signed"), MANIFEST_NAME, len(copy.manifest), most=6)


def handed_over(directory: Path) -> House:
    house = House(directory, key=KEY)
    house.boot()
    house.go_on(6)
    house.stop()
    house.hand_over(NEXT_KEY)
    house.boot()
    house.go_on(6)
    house.stop()
    return house


def test_a_newer_key_seals_old_records_again(tmp_path: Path) -> None:
    """It is rightly in force, and yet does not vouch for what the key before it sealed."""
    directory = handed_over(tmp_path / "journal").directory
    for key in (KEY.public, NEXT_KEY.public):
        assert verify(directory, key).faults == []
    assert verify(directory, STRANGER.public).faults
    copy = Copy(shutil.copytree(directory, tmp_path / "again"))
    copy.forge(1, copy.begin(1), changed)
    copy.chain_from(1)
    copy.add_entry(NEXT_KEY, **copy.seal_of(1))
    copy.save()
    assert "segment 1 is sealed again after it was closed" in verify(copy.directory, KEY.public).faults[0].message
    copy = Copy(shutil.copytree(directory, tmp_path / "from the beginning"))
    copy.forge(1, copy.begin(1), changed)
    copy.without_seals()
    copy.chain_from(1)
    copy.manifest = [line for line in copy.manifest if b'"kind":"key"' not in line or KEY.public.text.encode() in line]
    copy.manifest = [
        line.replace(b'"entry":', b'"was":', 1).replace(b'{"v":2,', b'{"v":2,"entry":%d,' % number, 1)
        for number, line in enumerate(copy.manifest, 1)
    ]
    copy.seal_anew(NEXT_KEY)
    copy.save()
    assert verify(copy.directory, KEY.public).faults


# The manifest.


OF_MANIFESTS = (
    "the manifest removed", "two seals swapped", "a seal dropped", "one of the first entries dropped",
    "a seal repeated", "junk in the manifest", "a signature removed",
)  # fmt: skip


@pytest.mark.parametrize("name", OF_MANIFESTS)
@pytest.mark.parametrize("kind", ["signed", "growing", "compressed", "unsigned"])
def test_the_manifest(fresh: Fresh, kind: str, name: str) -> None:
    if (name, kind) == ("a signature removed", "unsigned"):
        return
    copy = fresh(kind)
    TAMPERINGS[name].tamper(copy, copy.numbers[1], 0)
    assert any(fault.path == MANIFEST_NAME for fault in look(copy, kind).faults)


@pytest.mark.parametrize("kind", ["signed", "unsigned", "growing"])
def test_the_end_of_the_manifest_is_cut_off(fresh: Fresh, kind: str) -> None:
    """While the segments stay: noticed, unless all that is cut off are seals of the last segment behind its first."""
    copy = fresh(kind)
    last = copy.numbers[-1]
    needed = sum(b'"segment":%d,' % last not in line for line in copy.manifest) + 1
    for kept in range(len(copy.manifest)):
        copy = fresh(kind)
        noted = copy.last_seal
        del copy.manifest[kept:]
        faults = look(copy, kind).faults
        assert bool(faults) == (kept < needed), (kept, faults)
        assert verify(copy.directory, trusted(kind), [noted]).faults
        assert kind == "growing" or verify(copy.directory, trusted(kind), to_the_end=True).faults


def cut_back(copy: Copy, kept: int) -> None:
    """To what it was like when the manifest had ``kept`` entries."""
    del copy.manifest[kept:]
    sizes = {}
    for line in copy.manifest:
        members = json.loads(line)
        if members["kind"] == "seal":
            sizes[members["segment"]] = members["bytes"]
    for number in copy.numbers:
        if number in sizes:
            data = b"".join(copy.segments[number])[: sizes[number]]
            copy.segments[number] = data.splitlines(keepends=True)
        else:
            del copy.segments[number]


@pytest.mark.parametrize("kind", ["signed", "unsigned", "compressed"])
def test_cut_off_to_what_it_was_like_once(fresh: Fresh, kind: str) -> None:
    """This cannot be noticed, but by who has noted a seal; not even when the server goes on from there."""
    for kept in range(2, len(fresh(kind).manifest)):
        copy = fresh(kind)
        noted = copy.last_seal
        cut_back(copy, kept)
        assert look(copy, kind).faults == []
        assert verify(copy.directory, trusted(kind), to_the_end=True).faults == []
        assert [fault.path for fault in verify(copy.directory, trusted(kind), [noted]).faults] == [MANIFEST_NAME]
        house = House(copy.directory, key=None if kind == "unsigned" else KEY)
        for path in list_segments(copy.directory):
            path.chmod(0o640)
        house.boot()
        house.go_on(3)
        house.stop()
        assert verify(copy.directory, trusted(kind), to_the_end=True).faults == []
        assert [fault.path for fault in verify(copy.directory, trusted(kind), [noted]).faults] == [MANIFEST_NAME]


def test_what_is_not_sealed_can_be_made_up(fresh: Fresh) -> None:
    """So it is said how far the seals go."""
    copy = fresh("growing")
    last = copy.numbers[-1]
    copy.forge(last, len(copy.segments[last]) - 3, changed)
    copy.chain(last)
    report = look(copy, "growing")
    assert report.faults == []
    assert (
        f"records {report.sealed_seq + 1} to {report.last_seq}, after record {report.sealed_seq} of "
        in report.notes[-1]
    )
    assert verify(copy.directory, KEY.public, to_the_end=True).faults[0].seq == report.sealed_seq + 1


def test_faults_that_are_not_listed_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "FINDINGS", 3)
    make(tmp_path / "journal", "chain")
    path = list_segments(tmp_path / "journal")[-1]
    with path.open("ab") as file:
        file.write(b"junk\n" * 50)
    faults = verify(tmp_path / "journal").faults
    assert [each.line is None for each in faults] == [False, False, False, True]
    more = JournalFault(
        path=path.name,
        code="bad-line",
        message="and 47 more in this segment, which are not listed",
        segment=int(path.name.partition(".")[0]),
    )
    assert faults[-1] == more


def test_a_manifest_without_any_segment(tmp_path: Path) -> None:
    make(tmp_path / "journal", "unsigned")
    numbers = [int(path.name.partition(".")[0]) for path in list_segments(tmp_path / "journal")]
    for path in list_segments(tmp_path / "journal"):
        path.unlink()
    report = verify(tmp_path / "journal")
    assert report.segments == 0
    assert [(each.code, each.segment) for each in report.faults] == [("segment-missing", number) for number in numbers]
