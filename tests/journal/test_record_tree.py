"""The tree of records goes on across segments and boots, and the checkpoints in seals are of it."""

import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bussrv.errors import JournalError
from bussrv.journal.checkpoints import (
    default_name,
    name_in,
    newest_checkpoint,
    read_checkpoint,
    sealed_checkpoints,
)
from bussrv.journal.header import HeaderTree, decode_header, encode_header
from bussrv.journal.keys import PrivateKey
from bussrv.journal.manifest import MANIFEST_NAME, last_seq
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.reading import read_header
from bussrv.journal.record_tree import RecordTree, TreeHead, origin_of
from bussrv.journal.recovery import recover
from bussrv.journal.sealing import Sealer
from bussrv.journal.segment import list_segments, open_segment
from bussrv.journal.verify import verify
from bussrv.transparency.cosignatures import signed_by
from bussrv.transparency.tree import Edge, leaf_hash
from tests.docs.golden import OLDER, PLACE, UPGRADED, WITNESS
from tests.inspection.journals import clean_journal
from tests.journal.support import FakeClock, fact, writer


def record_lines(directory, since=1):
    """The lines of all records, without their newlines."""
    lines = []
    for path in list_segments(directory):
        with open_segment(path) as file:
            lines += [line[:-1] for line in file if b',"seq":' in line[:120] and line.endswith(b"\n")]
    return [line for seq, line in enumerate(lines, 1) if seq >= since]


def head_of(lines, begin=1):
    edge = Edge()
    edge.extend([leaf_hash(line) for line in lines])
    return TreeHead(begin, edge.size, edge.root())


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["go on", "rotate", "restart"])), min_size=1, max_size=8))
def test_the_tree_is_that_of_all_lines(tmp_path_factory, steps):
    directory = tmp_path_factory.mktemp("journal")
    current = writer(directory)
    for number, (count, then) in enumerate(steps):
        current.commit([fact(f"{number}.{each}") for each in range(count)])
        if then == "rotate":
            current.rotate()
        elif then == "restart":
            current.close()
            current = writer(directory)
    extent = current.extent()
    current.close()
    lines = record_lines(directory)
    assert extent is None or extent.tree == head_of(lines)
    assert recover(directory, None).tree.head() == head_of(lines)
    for path in list_segments(directory):
        header = read_header(path)
        assert RecordTree.of_header(header.tree, header.segment).head() == head_of(lines[: header.segment - 1])


@pytest.mark.parametrize("seed", range(4))
def test_checkpoints_are_of_the_records_up_to_there(tmp_path, seed):
    house = clean_journal(tmp_path / "journal", seed)
    lines, manifest = record_lines(house.directory), read_manifest(house.directory / MANIFEST_NAME)
    for seal in manifest.all_seals.values():
        for each in seal:
            found, note = read_checkpoint(each.checkpoint)
            wanted = head_of(lines[: last_seq(each)])
            assert (found.size, found.root) == (wanted.size, wanted.root)
            assert len(note.signatures) == (house.key is not None)
    every = list(sealed_checkpoints(manifest))
    assert [each.seal for each in every] == list(manifest.checkpoints.values())
    assert not every or newest_checkpoint(manifest) == every[-1]


def test_the_golden_journal_is_cosigned():
    manifest = read_manifest(PLACE / "whole" / MANIFEST_NAME)
    cosigned = [each for each in sealed_checkpoints(manifest) if len(each.note.signatures) > 1]
    assert [signed_by(each.note, WITNESS.verifier).time for each in cosigned] == [1795199463]
    assert [each.note.text for each in cosigned] == [signed.note.text for signed in cosigned]
    # The key was handed over.
    assert len({each.key for each in sealed_checkpoints(manifest)}) == 2


def test_in_an_older_journal_the_tree_begins_later():
    *older, newest = list_segments(UPGRADED)
    header = read_header(newest)
    assert [read_header(path).tree for path in older] == [None, None]
    assert header.tree == HeaderTree(header.segment)
    found = newest_checkpoint(read_manifest(UPGRADED / MANIFEST_NAME))
    lines = record_lines(UPGRADED, header.segment)
    assert (found.checkpoint.size, found.checkpoint.root) == (len(lines), head_of(lines).root)
    assert found.checkpoint.origin == f"bussrv.local/attic/{header.segment}"
    assert name_in(read_manifest(UPGRADED / MANIFEST_NAME)) == "bussrv.local/attic"


def test_after_damage_another_tree_begins():
    first, second = (read_header(path) for path in list_segments(PLACE / "salvaged"))
    assert (first.tree, second.tree) == (HeaderTree(1), HeaderTree(second.segment))
    found = newest_checkpoint(read_manifest(PLACE / "salvaged" / MANIFEST_NAME))
    assert found.checkpoint.origin == f"bussrv.local/barn/{second.segment}"
    assert found.key is None
    assert "\n\n" not in found.text


def test_an_older_server_that_wrote_on_leaves_no_tree(tmp_path):
    """Its segments are read, and a new tree begins after them."""
    directory = shutil.copytree(OLDER / "v3" / "whole", tmp_path / "journal")
    current = writer(directory)
    current.commit([fact("a")])
    current.close()
    header = read_header(list_segments(directory)[-1])
    assert header.tree == HeaderTree(header.segment)


@pytest.mark.parametrize("tree", [
    {"begin": 1, "edge": []}, {"begin": 4, "edge": ["00" * 32]}, {"begin": 3, "edge": ["00" * 31]},
    {"begin": 3, "edge": ["AB" * 32]}, {"begin": 3, "edge": ["x"]}, {"begin": 5, "edge": []},
])  # fmt: skip
def test_a_tree_that_cannot_be_is_no_header(tree):
    text = encode_header(read_header(list_segments(PLACE / "salvaged")[0])).replace(b'"segment":1', b'"segment":4')
    text = text.replace(b'"tree":{"begin":1,"edge":[]}', b'"tree":' + json.dumps(tree).encode())
    with pytest.raises(JournalError, match="not the header"):
        decode_header(text)


def test_a_journal_keeps_its_name(tmp_path):
    key, clock = PrivateKey(bytes(32)), FakeClock()
    current = writer(tmp_path)
    current.commit([fact("a")])
    extent = current.extent()
    current.close()
    for name, wanted in (
        (None, "bussrv.local/Fl%C3%BCr%2B"),
        ("example.com/hall", "example.com/hall"),
        (None, "example.com/hall"),
    ):
        manifest = read_manifest(tmp_path / MANIFEST_NAME)
        sealer = Sealer(tmp_path, "Flür+", manifest=manifest, key=key, clock=clock, name=name)
        ((seal, _),) = sealer.seal([extent], closed=False)
        assert read_checkpoint(seal.checkpoint)[0].origin == wanted
    assert default_name("hall") == "bussrv.local/hall"
    assert origin_of("example.com/hall", 1) == "example.com/hall"


def test_a_checkpoint_that_is_not_of_the_records_is_found(tmp_path):
    """A faulty server wrote it: nothing was changed since."""
    current = writer(tmp_path)
    current.commit([fact("a"), fact("b")])
    extent = current.extent()
    current.close()
    sealer = Sealer(tmp_path, "hall", manifest=read_manifest(tmp_path / MANIFEST_NAME), key=None, clock=FakeClock())
    sealer.seal([replace(extent, tree=TreeHead(1, 2, bytes(32)))], closed=True)
    (fault,) = verify(tmp_path).faults
    assert (fault.code, fault.seq, fault.last_seq) == ("broken-tree", 1, 2)


def test_a_header_with_another_tree_is_found(tmp_path):
    current = writer(tmp_path)
    current.commit([fact("a"), fact("b")])
    current.rotate()
    current._tree = RecordTree.of_header(HeaderTree(1, ("00" * 32,)), 3)
    current.commit([fact("c")])
    current.close()
    (fault,) = verify(tmp_path).faults
    assert (fault.code, fault.segment, fault.seq, fault.last_seq) == ("broken-tree", 3, 1, 2)
