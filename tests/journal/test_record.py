"""One record, one line: the codec of the journal."""

import datetime
import json
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.errors import JournalError
from bussrv.journal.chain import START, line_hash
from bussrv.journal.header import decode_header, encode_header
from bussrv.journal.record import (
    Record,
    Stamped,
    decode,
    encode,
    encode_event,
    format_time,
    line,
    number,
    parse_time,
)
from bussrv.journal.versions import SCHEMA_VERSION
from tests.journal.strategies import LAST_MOMENT, events, hashes, integers, moments, records
from tests.tables import each_row

VECTORS = Path(__file__).parents[1].joinpath("vectors", "journal.jsonl")
HEADER, *GOLDEN = VECTORS.read_bytes().splitlines(keepends=True)


def attempt(text):
    """The record that a line is said to hold, or ``None`` when it is refused as it should be."""
    try:
        return decode(text)
    except JournalError:
        return None


# Round trip.


@given(records)
def test_what_is_written_is_read_again(record):
    text = encode(record)
    assert text.endswith(b"\n")
    assert text.count(b"\n") == 1
    assert decode(text) == record
    assert decode(text[:-1]) == record


@given(records)
def test_a_line_is_json_that_says_the_same(record):
    fields = json.loads(encode(record))
    head = {"v": SCHEMA_VERSION, "prev": record.prev, "seq": record.seq, "time": format_time(record.time)}
    head |= {
        "mono": record.mono,
        "server": record.server,
        "boot": record.boot,
        "outcome": record.event.OUTCOME,
        "event": ev.event_name(record.event),
    }
    assert list(fields)[: len(head)] == list(head)
    assert fields == head | json.loads(json.dumps(msgspec.to_builtins(record.event)))


@given(records)
def test_the_event_may_be_encoded_beforehand(record):
    assert line(record, encode_event(record.event)) == encode(record)


# Some of one second, and some of the second before or after it.
close_moments = st.integers(1_795_269_722_999_990, 1_795_269_723_000_010) | st.integers(0, 2_000_000)
batches = st.lists(st.builds(Stamped, time=close_moments | moments, mono=integers, event=events), max_size=8)


@given(batches, st.integers(1, 2**63 - 100), hashes, st.text(max_size=20), st.text(max_size=20))
def test_a_batch_is_written_as_its_records_are(batch, seq, prev, server, boot):
    expected, last = [], prev
    for index, each in enumerate(batch):
        expected.append(Record(seq + index, each.time, each.mono, server, boot, each.event, last))
        last = line_hash(encode(expected[-1]))
    bodies = [encode_event(each.event) for each in batch]
    lines = b"".join(map(encode, expected))
    assert number(batch, bodies, seq, prev, server, boot) == (lines, expected, last)


def test_a_line_is_written_as_documented():
    event = ev.ServiceRegistered(protocol="objects", session="5f1c.3", service="Türklingel")
    assert encode(Record(7, 1_795_269_723_123_456, 81_230_001, "hall", "5f1c", event, "9f" * 32)).decode() == (
        f'{{"v":4,"prev":"{"9f" * 32}","seq":7,"time":"2026-11-21T14:02:03.123456Z","mono":81230001,"server":"hall",'
        '"boot":"5f1c","outcome":"ok","event":"service.registered","protocol":"objects","session":"5f1c.3","service":"Türklingel"}\n'
    )


def test_what_is_no_text_cannot_be_encoded():
    with pytest.raises(ValueError, match="surrogates"):
        encode_event(ev.AuthFailed(actor="\ud800"))


# Times.


@given(moments)
def test_a_time_is_read_as_it_was_written(micros):
    text = format_time(micros)
    assert parse_time(text) == micros
    seconds, fraction = divmod(micros, 1_000_000)
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds, microseconds=fraction)
    assert text == moment.isoformat(timespec="microseconds") + "Z"


@given(st.integers())
def test_what_is_written_is_read_whatever_the_clock_says(micros):
    first, last = parse_time("1000-01-01T00:00:00.000000Z"), LAST_MOMENT
    read = parse_time(format_time(micros))
    assert first <= read <= last
    assert read == micros or not first <= micros <= last


@each_row(
    ("micros", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (999_999, "1970-01-01T00:00:00.999999Z"),
        (1_709_208_000_000_001, "2024-02-29T12:00:00.000001Z"),
        (1_795_269_723_123_456, "2026-11-21T14:02:03.123456Z"),
        (LAST_MOMENT, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_times(micros, text):
    assert format_time(micros) == text
    assert parse_time(text) == micros


@each_row(
    "text",
    [
        "",
        "2026-11-21",
        "2026-11-21T14:02:03Z",
        "2026-11-21T14:02:03.123456",
        "2026-11-21T14:02:03.12345Z",
        "2026-11-21T14:02:03.1234567Z",
        "2026-11-21T14:02:03,123456Z",
        "2026-11-21t14:02:03.123456Z",
        "2026-11-21T14:02:03.123456z",
        "2026-11-21 14:02:03.123456Z",
        "2026-11-21T14:02:03.123456Z\n",
        "2026-11-21T14:02:03.123456+00:00",
        "2026-11-21T14:02: 3.123456Z",
        "2026-13-21T14:02:03.123456Z",
        "2026-02-29T14:02:03.123456Z",
        "2026-11-21T24:02:03.123456Z",
        "2026-11-21T24:00:00.000000Z",
        "2026-11-21T14:02:60.123456Z",
        "0000-11-21T14:02:03.123456Z",
        "٢٠٢٦-11-21T14:02:03.123456Z",
        "2026-11-21T14:02:03.١٢٣٤٥٦Z",
    ],
)
def test_what_is_no_time(text):
    with pytest.raises(ValueError):  # noqa: PT011
        parse_time(text)


@given(st.from_regex(r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z\Z") | st.text(max_size=30))
def test_a_time_that_is_read_would_be_written_so(text):
    try:
        micros = parse_time(text)
    except ValueError:
        return
    if micros >= 0:
        assert format_time(micros) == text


# The golden records.


def test_the_golden_records_hold_every_event_and_its_own_fields():
    seen = {}
    for text in GOLDEN:
        fields = json.loads(text)
        seen.setdefault(fields["event"], set()).update(fields)
    assert seen.keys() == ev.EVENTS_BY_NAME.keys()
    common = {field.name for field in msgspec.structs.fields(ev.Event)}
    assert set.union(*seen.values()) >= common
    for name, cls in ev.EVENTS_BY_NAME.items():
        assert seen[name] >= {field.name for field in msgspec.structs.fields(cls)} - common


def test_the_golden_records_are_written_byte_for_byte():
    written = [encode_header(decode_header(HEADER)), *(encode(decode(text)) for text in GOLDEN)]
    assert b"".join(written) == VECTORS.read_bytes()
    assert [decode(text).seq for text in GOLDEN] == list(range(1, len(GOLDEN) + 1))


def test_each_golden_line_holds_the_hash_of_the_one_before():
    assert decode_header(HEADER).prev == START
    assert [decode(text).prev for text in GOLDEN] == [line_hash(text) for text in (HEADER, *GOLDEN[:-1])]


# Damage.


def test_a_line_short_of_a_byte_is_refused_or_reads_differently():
    for text in GOLDEN:
        record = decode(text)
        # Nobody reads the outcome: the event implies it.
        start, end = re.search(rb'"outcome":"(\w+)"', text).span(1)
        for position in range(len(text) - 1):
            damaged = attempt(text[:position] + text[position + 1 :])
            assert damaged != record or start <= position < end, (text, position)


def test_a_line_that_breaks_off_is_refused():
    for text in GOLDEN:
        for length in range(len(text) - 1):
            assert attempt(text[:length]) is None, (text, length)


@given(st.sampled_from(GOLDEN), st.data())
def test_whatever_happens_to_a_line_only_journal_error_is_raised(text, data):
    position = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(position, min(len(text), position + 8)))
    attempt(text[:position] + data.draw(st.binary(max_size=8)) + text[until:])


@given(st.binary(max_size=100) | st.text().map(str.encode))
def test_whatever_a_line_is_only_journal_error_is_raised(text):
    attempt(text)


@each_row("where", ["options", "unknown"])
def test_nesting_without_end_is_refused(where):
    deep = b"[" * 100_000 + b"]" * 100_000
    text = encode(Record(1, 0, 0, "s", "b", ev.SubscriptionAdded(options={"x": 1})))
    text = text.replace(b'{"x":1}', b'{"x":%b}' % deep if where == "options" else b'{},"unknown":' + deep)
    with pytest.raises(JournalError, match="recursion"):
        decode(text)


@each_row(
    "text", [b"", b"\n", b"null\n", b"[]\n", b"7\n", b"{}\n", b"\xff\n", b"\0" * 80, GOLDEN[0] * 2, GOLDEN[0][:-1] * 2]
)
def test_what_is_no_record(text):
    with pytest.raises(JournalError, match="not a journal record"):
        decode(text)


def changed(text, **fields):
    return json.dumps({**json.loads(text), **fields}).encode()


@each_row("text", GOLDEN, ids=[json.loads(text)["event"] for text in GOLDEN])
def test_unknown_fields_are_ignored(text):
    assert decode(changed(text, added_later={"a": [1, None]})) == decode(text)


@each_row(
    ("fields", "said"),
    [
        ({"v": 5}, "schema version 5, this program reads versions 2 and 3 and 4"),
        ({"v": 1}, "schema version 1, this program reads versions 2 and 3 and 4"),
        ({"v": 5, "event": "door.opened", "time": 7.5}, "schema version 5"),
        ({"v": 5, "event": "door.opened"}, "schema version 5"),
        ({"v": "4"}, "not a journal record"),
        ({"event": "door.opened"}, "door.opened"),
        ({"seq": "1"}, "seq"),
        ({"seq": True}, "seq"),
        ({"prev": 7}, "prev"),
        ({"time": "yesterday"}, "not a time"),
        ({"session": 7}, "session"),
    ],
)
def test_what_is_refused_is_named(fields, said):
    with pytest.raises(JournalError, match=said):
        decode(changed(GOLDEN[0], **fields))


@each_row("field", ["v", "prev", "seq", "time", "mono", "server", "boot", "outcome", "event"])
def test_no_field_of_the_head_may_be_missing(field):
    fields = json.loads(GOLDEN[0])
    del fields[field]
    with pytest.raises(JournalError):
        decode(json.dumps(fields).encode())
