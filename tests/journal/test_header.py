"""What a segment begins with: the lines of its header and of its snapshot."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from bussrv.errors import JournalError
from bussrv.journal.chain import START, line_hash
from bussrv.journal.header import Damage, Header, Part, Previous, decode_header, decode_part, encode_header, encode_part
from bussrv.journal.record import decode, encode, format_time
from tests.journal.strategies import hashes, json_values, moments, records
from tests.tables import each_row

RECORD = Path(__file__).parents[1].joinpath("vectors", "journal.jsonl").read_bytes().splitlines(keepends=True)[1]
NUMBERS = st.integers(1, 2**63)
TEXTS = st.text(max_size=20)

headers = st.builds(
    Header,
    prev=hashes,
    segment=NUMBERS,
    parts=st.integers(0, 2**32),
    time=moments,
    server=TEXTS,
    boot=TEXTS,
    previous=st.none() | st.builds(Previous, NUMBERS, st.integers(0, 2**63), hashes),
    seal=st.none() | hashes,
    salvaged=st.none() | st.builds(Damage, st.integers(0, 2**63), st.integers(0, 2**63), TEXTS, st.none() | NUMBERS),
)
parts = st.builds(
    Part,
    hashes,
    NUMBERS,
    NUMBERS,
    json_values.map(lambda value: Raw(json.dumps(value, separators=(",", ":")).encode())),
)

HEADER = Header(prev=START, segment=1, parts=0, time=1_795_269_723_123_456, server="hall", boot="5f1c")
FULL = Header(
    prev="9f" * 32,
    segment=813,
    parts=1,
    time=1_795_269_723_123_456,
    server="Türen",
    boot="5f1c",
    previous=Previous(1, 251_034, "60" * 32),
    seal="fc" * 32,
    salvaged=Damage(segment=1, line=17, seq=15, reason="it was cut"),
)


@given(headers)
def test_a_header_that_is_written_is_read_again(header):
    text = encode_header(header)
    assert text.endswith(b"\n")
    assert text.count(b"\n") == 1
    assert decode_header(text) == decode_header(text[:-1]) == header


@given(parts)
def test_a_part_that_is_written_is_read_again(part):
    text = encode_part(part)
    assert text.endswith(b"\n")
    assert text.count(b"\n") == 1
    found = decode_part(text)
    assert (found.prev, found.snapshot, found.part) == (part.prev, part.snapshot, part.part)
    assert bytes(found.state) == bytes(part.state)


def test_a_header_is_written_as_documented():
    assert encode_header(HEADER).decode() == (
        f'{{"v":4,"prev":"{START}","segment":1,"parts":0,"time":"2026-11-21T14:02:03.123456Z","server":"hall",'
        '"boot":"5f1c"}\n'
    )
    assert encode_header(FULL).decode() == (
        f'{{"v":4,"prev":"{"9f" * 32}","segment":813,"parts":1,"time":"2026-11-21T14:02:03.123456Z","server":"Türen",'
        f'"boot":"5f1c","previous":{{"segment":1,"bytes":251034,"digest":"{"60" * 32}"}},"seal":"{"fc" * 32}",'
        '"salvaged":{"segment":1,"line":17,"reason":"it was cut","seq":15}}\n'
    )


def test_a_part_is_written_as_documented():
    part = Part("d2" * 32, 813, 1, Raw(b'{"services":{"tv":{"5f1c.3":7}}}'))
    assert encode_part(part).decode() == (
        f'{{"v":4,"prev":"{"d2" * 32}","snapshot":813,"part":1,"state":{{"services":{{"tv":{{"5f1c.3":7}}}}}}}}\n'
    )


@given(headers, parts, records)
def test_no_line_is_taken_for_one_of_another_kind(header, part, record):
    lines = [encode_header(header), encode_part(part), encode(record)]
    for own, decoder in enumerate((decode_header, decode_part, decode)):
        for number, text in enumerate(lines):
            if number != own:
                with pytest.raises(JournalError):
                    decoder(text)


@each_row("header", [HEADER, FULL], ids=["short", "full"])
def test_a_header_cut_short_is_refused_or_reads_differently(header):
    text = encode_header(header)
    for position in range(len(text) - 1):
        with pytest.raises(JournalError):
            decode_header(text[:position])
        try:
            found = decode_header(text[:position] + text[position + 1 :])
        except JournalError:
            continue
        # What stands at the name of an optional member is unknown, and ignored: the chain is there to notice.
        assert found != header


@given(st.sampled_from([encode_header(FULL), RECORD]), st.data())
def test_whatever_happens_to_a_line_only_journal_error_is_raised(text, data):
    position = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(position, min(len(text), position + 8)))
    changed = text[:position] + data.draw(st.binary(max_size=8)) + text[until:]
    for decoder in (decode_header, decode_part):
        with suppress(JournalError):
            decoder(changed)


def changed(text, **fields):
    return json.dumps({**json.loads(text), **fields}).encode()


@each_row(
    ("fields", "said"),
    [
        ({"v": 1}, "schema version 1, this program reads versions 2 and 3 and 4"),
        ({"v": 5}, "schema version 5, this program reads versions 2 and 3 and 4"),
        ({"segment": "1"}, "segment"),
        ({"time": "yesterday"}, "not a time"),
        ({"previous": {"segment": 1}}, "bytes"),
        ({"salvaged": 7}, "salvaged"),
        ({"prev": None}, "prev"),
    ],
)
def test_what_is_refused_in_a_header_is_named(fields, said):
    with pytest.raises(JournalError, match=said):
        decode_header(changed(encode_header(HEADER), **fields))


@each_row("field", ["v", "prev", "segment", "parts", "time", "server", "boot"])
def test_no_field_of_a_header_may_be_missing(field):
    fields = json.loads(encode_header(HEADER))
    del fields[field]
    with pytest.raises(JournalError):
        decode_header(json.dumps(fields).encode())


@each_row("text", [encode_header(HEADER), encode_part(Part(START, 1, 1, Raw(b"{}")))])
def test_unknown_fields_are_ignored(text):
    decoder = decode_header if b'"segment"' in text else decode_part
    assert decoder(changed(text, added_later={"a": [1, None]})) == decoder(json.dumps(json.loads(text)).encode())


def test_nesting_without_end_is_refused():
    text = encode_part(Part(START, 1, 1, Raw(b"[" * 100_000 + b"]" * 100_000)))
    with pytest.raises(JournalError, match="recursion"):
        decode_part(text)


def test_the_hash_of_a_line_leaves_out_its_newline():
    assert (
        line_hash(b"abc\n") == line_hash(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )
    assert line_hash(b"abc\n\n") != line_hash(b"abc")


def test_the_time_of_a_header_is_written_as_in_records():
    assert json.loads(encode_header(HEADER))["time"] == format_time(HEADER.time)
