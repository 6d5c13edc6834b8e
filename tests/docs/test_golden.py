"""The golden journals are what the server writes, are found to be what the page says, and show everything there is."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bussrv import events as ev
from bussrv.cli.main import main
from bussrv.journal.header import Damage, Header, Previous, decode_header, decode_part, encode_header, encode_part
from bussrv.journal.keys import PrivateKey, read_public
from bussrv.journal.manifest import Body, decode, encode
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.reading import read_header
from bussrv.journal.record import decode as decode_record
from bussrv.journal.record import encode as encode_record
from bussrv.journal.segment import list_segments, open_segment
from tests.docs.golden import FIRST_KEY, PLACE, SECOND_KEY, write

JOURNALS = ("whole", "salvaged")
SEGMENTS = [path for name in JOURNALS for path in list_segments(PLACE / name)]


def contents(place: Path) -> dict[str, bytes]:
    """The golden files; what is compressed as it was before."""
    paths = [*place.glob("*.pub"), *(path for name in JOURNALS for path in (place / name).iterdir())]
    return {str(path.relative_to(place)): uncompressed(path) for path in paths}


def uncompressed(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def lines(path: Path) -> list[bytes]:
    with open_segment(path) as file:
        return file.readlines()


def every_line() -> Iterator[bytes]:
    for path in SEGMENTS:
        yield from lines(path)
    for name in JOURNALS:
        yield from (PLACE / name / "manifest").read_bytes().splitlines(keepends=True)


def records() -> Iterator[bytes]:
    for path in SEGMENTS:
        yield from lines(path)[1 + read_header(path).parts :]


def test_they_are_written_again_byte_for_byte(tmp_path: Path) -> None:
    write(tmp_path)
    assert contents(tmp_path) == contents(PLACE)


def test_what_is_compressed_says_neither_when_nor_by_what_name() -> None:
    (path,) = (PLACE / "whole").glob("*.gz")
    assert path.read_bytes()[:8] == bytes.fromhex("1f8b0800 00000000")


@pytest.mark.parametrize(("name", "key"), [("first", FIRST_KEY), ("second", SECOND_KEY)])
def test_the_keys_are_those_of_the_sentences(name: str, key: PrivateKey) -> None:
    assert read_public(PLACE / f"{name}.pub") == key.public


@pytest.mark.parametrize("name", ["first", "second"])
def test_one_is_found_sound(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "verify", str(PLACE / "whole"), "--public-key", str(PLACE / f"{name}.pub")]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("OK")


def test_of_the_other_the_damage_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "verify", str(PLACE / "salvaged")]) == 1
    said = capsys.readouterr().out
    assert "records 3 to 4: broken-chain: record 4 does not hold the hash of the line before it" in said
    assert "a new chain begins here, after damage in segment 1, line 5" in said
    assert said.endswith("3 FAULTS\n")


def test_they_hold_every_event_and_every_field_of_it() -> None:
    seen: dict[str, set[str]] = {}
    for text in records():
        fields = json.loads(text)
        seen.setdefault(fields["event"], set()).update(fields)
    assert seen.keys() == ev.EVENTS_BY_NAME.keys()
    assert set.union(*seen.values()) >= names(ev.Event)
    for name, cls in ev.EVENTS_BY_NAME.items():
        assert seen[name] >= names(cls) - names(ev.Event), name


def test_they_hold_every_field_of_a_header() -> None:
    headers = [read_header(path) for path in SEGMENTS]
    for cls, found in (
        (Header, headers),
        (Previous, [each.previous for each in headers]),
        (Damage, [each.salvaged for each in headers]),
    ):
        shown = [each for each in found if each is not None]
        assert all(any(getattr(each, name) is not None for each in shown) for name in names(cls)), cls


def test_they_hold_every_kind_of_entry_and_both_of_seals() -> None:
    bodies = [each.body for name in JOURNALS for each in read_manifest(PLACE / name / "manifest").entries]
    assert {type(each) for each in bodies} == set(Body.__args__)
    assert {each.closed for each in bodies if hasattr(each, "closed")} == {True, False}


def test_every_line_is_written_as_it_is_read() -> None:
    for path in SEGMENTS:
        header, *rest = lines(path)
        parts = decode_header(header).parts
        assert encode_header(decode_header(header)) == header
        assert [encode_part(decode_part(text)) for text in rest[:parts]] == rest[:parts]
        assert [encode_record(decode_record(text)) for text in rest[parts:]] == rest[parts:]
    for name in JOURNALS:
        for text in (PLACE / name / "manifest").read_bytes().splitlines(keepends=True):
            entry = decode(text)
            key = next((each for each in (FIRST_KEY, SECOND_KEY) if each.public.fingerprint == entry.key), None)
            assert encode(entry.body, entry.number, entry.prev, key) == text


def test_the_examples_of_the_page_are_lines_of_them() -> None:
    page = (PLACE / "index.md").read_text("utf-8")
    examples = [block.split("\n```")[0].encode() + b"\n" for block in page.split("```json\n")[1:]]
    assert len(examples) == 7
    assert set(examples) <= set(every_line())


def test_every_file_is_listed_on_the_page() -> None:
    page = (PLACE / "index.md").read_text("utf-8")
    assert [name for name in contents(PLACE) if f"]({name})" not in page] == []


def names(cls: Any) -> set[str]:
    return {field.name for field in msgspec.structs.fields(cls)}
