"""A copy of a journal to be tampered with, by somebody who can write to its directory and knows how it is made."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import msgspec

from bussrv.errors import JournalError
from bussrv.journal.chain import START, line_hash
from bussrv.journal.checkpoints import default_name, sealed_checkpoint
from bussrv.journal.header import decode_header
from bussrv.journal.keys import PrivateKey, sign_line, split_signature
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.record import parse_time
from bussrv.journal.record_tree import RecordTree
from bussrv.journal.segment import COMPRESSED_SUFFIX, first_seq, list_segments

_PREV = re.compile(rb'"prev":"[0-9a-f]{64}"')
_PREVIOUS = re.compile(rb'"previous":\{[^}]*\}')
_SEAL = re.compile(rb'"seal":"[0-9a-f]{64}"')
_TREE = re.compile(rb'"tree":\{[^}]*\}')


class Copy:
    """A copy of a journal, to be tampered with.

    :ivar segments: the lines of each, by number.
    :ivar manifest: its lines.
    :ivar stranger: makes a copy of the journal of another server.
    :ivar on_disk: what is done last, in the directory.
    """

    stranger: Callable[[], Copy]

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest_path = directory / MANIFEST_NAME
        self.paths = {first_seq(path): path for path in list_segments(directory)}
        self.segments = {number: _read(path).splitlines(keepends=True) for number, path in self.paths.items()}
        self.manifest: list[bytes] = []
        if self.manifest_path.exists():
            self.manifest = self.manifest_path.read_bytes().splitlines(keepends=True)
        self._last = self.manifest[-1] if self.manifest else b""
        self.on_disk: list[Callable[[], object]] = []

    @property
    def numbers(self) -> list[int]:
        return sorted(self.segments)

    @property
    def server(self) -> str:
        """Whose journal it is."""
        return str(json.loads(self.segments[self.numbers[-1]][0])["server"])

    @property
    def last_seal(self) -> str:
        """The hash of the last line of the manifest as it was."""
        return line_hash(self._last)

    def name(self, number: int) -> str:
        return self.paths[number].name

    def begin(self, number: int) -> int:
        """The index of the first record of a segment among its lines; without any record, how many lines there are."""
        lines = self.segments[number]
        return next((i for i, line in enumerate(lines) if b',"seq":' in line[:120]), len(lines))

    def record(self, number: int, index: int) -> int:
        """The seq of the record that a line is."""
        return int(json.loads(self.segments[number][index])["seq"])

    def save(self) -> None:
        for number, path in self.paths.items():
            if number in self.segments:
                write(path, b"".join(self.segments[number]))
            else:
                path.unlink(missing_ok=True)
        if self.manifest:
            self.manifest_path.write_bytes(b"".join(self.manifest))
        else:
            self.manifest_path.unlink(missing_ok=True)
        for action in self.on_disk:
            action()

    def seals_of(self, number: int) -> list[int]:
        """The indices of the seals of a segment among the lines of the manifest; the last one is the closing seal."""
        return [i for i, line in enumerate(self.manifest) if json.loads(line).get("segment") == number]

    def forge(self, number: int, index: int, change: Callable[[bytes], bytes]) -> None:
        self.segments[number][index] = change(self.segments[number][index])

    def chain(self, number: int, prev: str | None = None) -> str:
        """Let the lines of a segment hold each other's hashes. :returns: that of the last one."""
        lines, last = self.segments[number], prev
        for index, line in enumerate(lines):
            if last is not None:
                lines[index] = _PREV.sub(b'"prev":"%b"' % last.encode(), line, count=1)
            last = line_hash(lines[index])
        return last or START

    def chain_from(self, number: int) -> None:
        """The same from a segment to the end, with the headers that say what the one before is like."""
        last: str | None = None
        before: int | None = None
        for each in [each for each in self.numbers if each >= number]:
            if before is not None:
                data = b"".join(self.segments[before])
                said = {"segment": before, "bytes": len(data), "digest": sha256(data).hexdigest()}
                text = b'"previous":' + json.dumps(said, separators=(",", ":")).encode()
                self.segments[each][0] = _PREVIOUS.sub(text, self.segments[each][0])
                tree = self._tree(before)
                # Otherwise no header can say it.
                if tree is not None and tree.head().size == each - tree.begin:
                    text = b'"tree":' + msgspec.json.encode(tree.as_header())
                    self.segments[each][0] = _TREE.sub(text, self.segments[each][0])
            last = self.chain(each, last)
            before = each

    def _tree(self, number: int, records: int | None = None) -> RecordTree | None:
        """The tree up to the end of a segment, or up to some of its records; ``None``: its header has none."""
        try:
            header = decode_header(self.segments[number][0])
        except JournalError:
            return None
        if header.tree is None:
            return None
        tree, begin = RecordTree.of_header(header.tree, header.segment), self.begin(number)
        lines = self.segments[number][begin : None if records is None else begin + records]
        tree.add(b"".join(lines))
        return tree

    def without_seals(self) -> None:
        """Let no header refer to a seal."""
        for each in self.numbers:
            self.forge(each, 0, lambda line: _SEAL.sub(b"", line).replace(b",,", b",").replace(b",}", b"}"))

    def seal_anew(self, key: PrivateKey | None, since: int = 0) -> None:
        """Write the manifest again from line ``since`` on, so that it fits the segments: signed, or without a key."""
        last = line_hash(self.manifest[since - 1]) if since else START
        renamed: dict[str, str] = {}
        for index in range(since, len(self.manifest)):
            members = json.loads(split_signature(self.manifest[index].removesuffix(b"\n"))[0])
            members.pop("key", None)
            members["prev"] = last
            lines = self.segments.get(members.get("segment"), [])
            if members["kind"] == "seal" and lines:
                until = None if members["closed"] else self.begin(members["segment"]) + members["records"]
                data = b"".join(lines[:until])
                members["bytes"], members["digest"] = len(data), sha256(data).hexdigest()
                tree = self._tree(members["segment"], None if members["closed"] else members["records"])
                if tree is not None and "checkpoint" in members:
                    time = parse_time(members["time"])
                    members["checkpoint"] = sealed_checkpoint(tree.head(), default_name(self.server), time, key)
            if members["kind"] == "key" and key is not None:
                members["public"] = key.public.text
            if members["kind"] == "cosigned":
                members["seal"] = renamed.get(members["seal"], members["seal"])
            before, self.manifest[index] = line_hash(self.manifest[index]), entry_line(members, key)
            last = renamed[before] = line_hash(self.manifest[index])

    def add_entry(self, key: PrivateKey | None, **members: object) -> None:
        """An entry behind the others, numbered and chained as it should be."""
        number, last = len(self.manifest) + 1, line_hash(self.manifest[-1]) if self.manifest else START
        time = "2027-01-15T09:00:00.000000Z"
        if "server" not in members:
            members["server"] = self.server
        said = {"v": 2, "prev": last, "entry": number, "time": time, **members}
        self.manifest.append(entry_line(said, key))

    def seal_of(self, number: int) -> dict[str, object]:
        """What a closed seal says of a segment as it is now."""
        lines = self.segments[number]
        first, last = json.loads(lines[self.begin(number)]), json.loads(lines[-1])
        data = b"".join(lines)
        return {
            "kind": "seal", "segment": number, "closed": True, "bytes": len(data), "digest": sha256(data).hexdigest(),
            "records": last["seq"] - first["seq"] + 1, "first_seq": first["seq"], "last_seq": last["seq"],
            "first_time": first["time"], "last_time": last["time"],
        }  # fmt: skip


def entry_line(members: dict[str, object], key: PrivateKey | None) -> bytes:
    """A line of a manifest."""
    if key is not None:
        members = {**members, "key": key.public.fingerprint}
    line = json.dumps(members, separators=(",", ":")).encode()
    return (line if key is None else sign_line(line, key)) + b"\n"


def _read(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.name.endswith(COMPRESSED_SUFFIX) else data


def write(path: Path, data: bytes) -> None:
    """Write a segment, compressed if its name says so."""
    path.unlink(missing_ok=True)
    path.write_bytes(gzip.compress(data, mtime=0) if path.name.endswith(COMPRESSED_SUFFIX) else data)


def changed(line: bytes) -> bytes:
    """A line that says something else, and is still one of a journal."""
    return re.sub(rb'"mono":([0-9]+)', lambda found: b'"mono":%d' % (int(found[1]) + 1), line, count=1)


def flipped(line: bytes, index: int) -> bytes:
    return line[:index] + bytes([line[index] ^ 1]) + line[index + 1 :]


def flipped_in(line: bytes, pattern: bytes) -> bytes:
    """With the lowest bit of a digit flipped: the first that ``pattern`` finds as a group."""
    match = re.search(pattern, line)
    assert match is not None, line
    return flipped(line, match.start(1))
