"""Damage that no crash can have done: it is named, nothing is changed, and a salvage goes on behind it."""

import gzip
import json
from contextlib import suppress

import pytest

from bussrv import events as ev
from bussrv.errors import JournalError
from bussrv.journal.chain import START, line_hash
from bussrv.journal.header import Damage, decode_part
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.reading import SegmentReader, read_header
from bussrv.journal.record import Record, decode, encode
from bussrv.journal.recovery import Damaged, recover
from bussrv.journal.salvage import salvage
from bussrv.journal.segment import CORRUPT, first_seq, list_segments, open_segment, segment_name
from bussrv.registry.state.fold import RegistryFold
from tests.journal.support import (
    STORY,
    Disk,
    contents,
    fold,
    last_entry,
    lines_of,
    make_entry,
    note,
    stamp,
    story,
    vouch,
    writer,
)
from tests.size import sample

RECORDS = sum(map(len, STORY))


# What is done to a journal. Segments: 1 with lines header, 1 to 4; 5 and 9 with header, snapshot, and four records.


class Harm:
    """Something that is done to a segment, and where it is found.

    :param line: of the segment; 0: it is the whole segment.
    :param seq: the record from which on the journal is in doubt.
    :param code: of the finding.
    """

    def __init__(self, do, line, seq, code, *, segment=None):
        self.do, self.line, self.seq, self.code, self.segment = do, line, seq, code, segment


def edit(change):
    """Harm that changes the list of the lines."""

    def do(path):
        lines = lines_of(path)
        change(lines)
        path.write_bytes(b"".join(lines))

    return do


def replaced(number, old, new):
    """Other bytes in the line of that number, from 1."""

    def change(lines):
        assert lines[number - 1].count(old) >= 1, lines[number - 1]
        lines[number - 1] = lines[number - 1].replace(old, new, 1)

    return edit(change)


def flipped_hash(number):
    """Another digit in the hash that a line holds of the one before it."""

    def change(lines):
        text = bytearray(lines[number - 1])
        position = text.index(b'"prev":"') + 8
        text[position] = ord("0") + (text[position] == ord("0"))
        lines[number - 1] = bytes(text)

    return edit(change)


def rechained(change):
    """Harm by somebody who knows the format, and writes every hash anew."""

    def do(path):
        header, *rest = lines_of(path)
        lines = [header]
        for text in change(rest):
            fields = json.loads(text)
            fields["prev"] = line_hash(lines[-1])
            lines.append(json.dumps(fields, separators=(",", ":")).encode() + b"\n")
        path.write_bytes(b"".join(lines))

    return do


def drop(number):
    return edit(lambda lines: lines.pop(number - 1))


def swap(number):
    return edit(lambda lines: lines.insert(number, lines.pop(number - 1)))


def insert(number, text):
    return edit(lambda lines: lines.insert(number - 1, text))


def repeat(number):
    return edit(lambda lines: lines.insert(number, lines[number - 1]))


FOREIGN = encode(Record(6, 0, 0, "server", "b2", note("eve").event, "ab" * 32))
LINE, CHAIN, LINK, SEAL = "bad-line", "broken-chain", "broken-link", "broken-seal"


def empty(path):
    path.write_bytes(b"")


def in_any_segment(first):
    """Harm to a segment that begins with record ``first`` and is not the first one."""
    return {
        "header: time": Harm(replaced(1, b'"time":"20', b'"time":"19'), 2, first, CHAIN),
        "header: prev": Harm(flipped_hash(1), 2, first, CHAIN),
        "header: number": Harm(replaced(1, b'"segment":', b'"segment":1'), 1, first, LINE),
        "header: no JSON": Harm(replaced(1, b'"parts"', b'"parts'), 1, first, LINE),
        "header: version": Harm(replaced(1, b'"v":4', b'"v":5'), 1, first, LINE),
        "header: gone": Harm(drop(1), 1, first, LINE),
        "snapshot: state": Harm(replaced(2, b"10.0.0.2", b"10.0.0.9"), 3, first, CHAIN),
        "snapshot: no JSON": Harm(replaced(2, b'"sessions"', b"sessions"), 2, first, LINE),
        "snapshot: prev": Harm(flipped_hash(2), 2, first, CHAIN),
        "snapshot: part": Harm(replaced(2, b'"part":1', b'"part":2'), 2, first, LINE),
        "snapshot: gone": Harm(drop(2), 2, first, CHAIN),
        "record: prev": Harm(flipped_hash(4), 4, first + 1, CHAIN),
        "record: seq": Harm(replaced(4, b'"seq":', b'"seq":9'), 4, first + 1, "seq-gap"),
        "record: time": Harm(replaced(4, b'"time":"20', b'"time":"19'), 5, first + 1, CHAIN),
        "record: payload": Harm(replaced(4, b'"session":"b', b'"session":"c'), 5, first + 1, CHAIN),
        "record: event": Harm(replaced(4, b'"event":"s', b'"event":"z'), 4, first + 1, LINE),
        "record: newline": Harm(replaced(4, b"\n", b" "), 4, first + 1, LINE),
        "record: no JSON": Harm(replaced(6, b'"event"', b'"event'), 6, first + 3, LINE),
        "record: dropped": Harm(drop(4), 4, first, CHAIN),
        "record: first dropped": Harm(drop(3), 3, first, CHAIN),
        "record: repeated": Harm(repeat(4), 5, first + 1, CHAIN),
        "records: swapped": Harm(swap(4), 4, first + 1, CHAIN),
        "record: put in": Harm(insert(4, FOREIGN.replace(b'"seq":6', b'"seq":%d' % (first + 1))), 4, first + 1, CHAIN),
        "line: too long": Harm(insert(4, b"x" * (1 << 24) + b"\n"), 4, first + 1, LINE),
        "empty": Harm(empty, 1, first, LINK),
    }


def unlink(path):
    path.unlink()


def cut(size):
    return lambda path: path.write_bytes(path.read_bytes()[:size])


def one_more(lines):
    fields = json.loads(lines[-1])
    return [*lines, json.dumps({**fields, "seq": fields["seq"] + 1}).encode()]


def another_actor(lines):
    return [text.replace(b"10.0.0.3", b"10.9.9.9").replace(b'"b1.2"', b'"b2.1"') for text in lines]


def another_shape(lines):
    return [text.replace(b'"sessions":', b'"sessions":7,"_":') for text in lines]


# What only the digest in the next header, or a seal, betrays.
WHOLE_SEGMENTS = {
    "rewritten": Harm(rechained(another_actor), 0, 5, SEAL),
    "goes on": Harm(rechained(one_more), 0, 9, SEAL),
    "goes on with junk": Harm(edit(lambda lines: lines.append(b"junk\n")), 7, 9, LINE),
    "last record: gone": Harm(drop(6), 0, 5, SEAL),
    "last record: torn": Harm(cut(-1), 0, 5, SEAL),
    "last record: payload": Harm(replaced(6, b'"duration":5', b'"duration":6'), 0, 5, SEAL),
    "missing": Harm(unlink, 0, 5, "segment-missing"),
    "renamed": Harm(lambda path: path.rename(path.with_name(segment_name(6))), 1, 6, LINE, segment=6),
}

LAST_SEALED = {
    "rewritten": Harm(rechained(another_actor), 0, 9, SEAL),
    "goes on": Harm(rechained(one_more), 0, 13, SEAL),
    "goes on unfinished": Harm(edit(lambda lines: lines.append(b"{")), 0, 13, SEAL),
    "last record: gone": Harm(drop(6), 0, 9, SEAL),
    "last record: torn": Harm(cut(-1), 0, 9, SEAL),
    "last record: payload": Harm(replaced(6, b'"gate"', b'"gaze"'), 0, 9, SEAL),
    "missing": Harm(unlink, 0, 9, "segment-missing"),
}

GROWING_SEALED = {
    "rewritten": Harm(rechained(another_actor), 0, 9, SEAL),
    "sealed record: gone": Harm(edit(lambda lines: lines.__delitem__(slice(3, None))), 0, 9, SEAL),
    "sealed record: torn": Harm(edit(lambda lines: lines.__setitem__(slice(3, None), [b"{"])), 0, 9, SEAL),
    "missing": Harm(unlink, 0, 9, "segment-missing"),
}


def compressed(directory, *numbers):
    for number in numbers:
        path = directory / segment_name(number)
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        path.unlink()


def story_of(directory, kind):
    """A journal to harm, and the segment that is to be harmed."""
    story(directory, sealed_records={"sealed": 4, "growing": 2}.get(kind), vouched=kind != "chain")


CASES = [
    *(
        pytest.param(kind, 5, harm, id=f"{kind}-older-{name}")
        for kind in ("chain", "sealed")
        for name, harm in in_any_segment(5).items()
    ),
    *(
        pytest.param(kind, 9, harm, id=f"{kind}-last-{name}")
        for kind in ("chain", "sealed")
        for name, harm in in_any_segment(9).items()
    ),
    *(pytest.param("sealed", 5, harm, id=f"sealed-older-{name}") for name, harm in WHOLE_SEGMENTS.items()),
    *(pytest.param("sealed", 9, harm, id=f"sealed-last-{name}") for name, harm in LAST_SEALED.items()),
    *(pytest.param("growing", 9, harm, id=f"growing-last-{name}") for name, harm in GROWING_SEALED.items()),
    pytest.param(
        "chain",
        5,
        Harm(rechained(another_actor), 0, 5, LINK),
        id="chain-older-rewritten",
    ),
    pytest.param("chain", 5, Harm(drop(6), 0, 5, LINK), id="chain-older-cut"),
    pytest.param("chain", 5, Harm(unlink, 0, 5, LINK), id="chain-older-missing"),
]


CASES.append(
    pytest.param(
        "chain",
        9,
        Harm(rechained(another_shape), 2, 9, LINE),
        id="chain-last-snapshot: shape",
    )
)


def decodable(directory):
    """The records of a journal that can be read, whatever stands in between."""
    found = []
    for path in list_segments(directory):
        with open_segment(path) as file, suppress(*CORRUPT):
            for text in file:
                with suppress(JournalError):
                    found.append(decode(text))
    return found


def refused(directory):
    """What is said of a damaged journal; nothing in it is changed."""
    before = contents(directory)
    found = []
    for _ in range(2):
        with pytest.raises(Damaged) as caught:
            recover(directory, RegistryFold())
        found.append((str(caught.value), caught.value.damage, caught.value.finding.code))
    assert contents(directory) == before
    assert found[0] == found[1]
    return found[0]


def go_on(directory, damage, state):
    """Salvage a journal, close its sessions, and see that it can be opened from then on; what it recovered."""
    before = contents(directory)
    found = RegistryFold()
    recovered = salvage(directory, damage, found)
    assert contents(directory) == before
    assert found.state == state
    assert (recovered.salvaged, recovered.hash, recovered.stopped) == (damage, START, False)
    assert recovered.next_seq > max(map(first_seq, list_segments(directory)), default=0)
    open_sessions = list(found.state.sessions)
    boot = writer(
        directory, recovered=recovered, fold=found, boot="next", files=Disk(), last_seal=lambda: last_entry(directory)
    )
    boot.commit([make_entry([stamp(ev.SessionClosed(session=each, duration=1))]) for each in open_sessions])
    boot.commit([make_entry([stamp(ev.ServerStopped())])])
    boot.close()
    path = list_segments(directory)[-1]
    assert first_seq(path) == recovered.next_seq
    header = read_header(path)
    assert (header.salvaged, header.previous, header.prev) == (damage, recovered.previous, START)
    for _ in range(2):
        again = RegistryFold()
        opened = recover(directory, again)
        assert (again.state.sessions, again.state.services, again.state.subscriptions) == ({}, {}, {})
        assert (opened.next_seq, opened.stopped) == (recovered.next_seq + len(open_sessions) + 1, True)
        assert opened.salvaged is None
    vouch(directory, opened.unsealed)
    boot = writer(directory, boot="later", files=Disk(), last_seal=lambda: last_entry(directory))
    boot.commit([make_entry([note("later")])])
    boot.close()
    assert recover(directory, RegistryFold()).next_seq == opened.next_seq + 1
    kept = contents(directory)
    assert {name: kept[name] for name in before if name != MANIFEST_NAME} == {
        name: data for name, data in before.items() if name != MANIFEST_NAME
    }
    return recovered


@pytest.mark.dear
@pytest.mark.parametrize(("kind", "number", "harm"), CASES)
def test_damage_is_named_and_left_and_a_salvage_goes_on_after_it(tmp_path, kind, number, harm):
    story_of(tmp_path, kind)
    truth = fold(decodable(tmp_path))
    harm.do(tmp_path / segment_name(number))
    message, damage, code = refused(tmp_path)
    number = harm.segment or number
    path = tmp_path / segment_name(number)
    assert message.startswith(f"{path}, line {harm.line}: " if harm.line else f"{path}: ")
    assert code == harm.code
    assert f"From record {harm.seq} on the journal is in doubt." in message
    assert "--journal-salvage" in message
    assert (damage.segment, damage.line, damage.seq) == (number, harm.line, harm.seq)
    assert damage.reason in message
    # The last segment, if it is whole, says what the registry was, whatever became of those before it.
    is_older = harm.segment is not None or number < 9
    recovered = go_on(tmp_path, damage, truth if is_older else fold(decodable(tmp_path)))
    # How much was cut off that was never sealed, nobody knows.
    is_cut = harm.do is empty and kind == "chain" and not is_older
    assert recovered.next_seq > (10 if kind == "growing" else 9 if is_cut else RECORDS)


# Every byte.


@pytest.mark.parametrize("number", [1, 5, 9])
def test_every_changed_byte_of_a_sealed_journal_is_noticed(tmp_path, number):
    """At full size every third one."""
    story(tmp_path, sealed_records=4)
    path = tmp_path / segment_name(number)
    data = path.read_bytes()
    for position in sample(range(number % 3, len(data), 3)):
        changed = bytearray(data)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        with pytest.raises(Damaged) as caught:
            recover(tmp_path, None)
        assert caught.value.damage.segment == number
        assert caught.value.damage.seq is not None


def test_without_seals_the_chain_holds_all_but_the_last_line(tmp_path):
    story(tmp_path, vouched=False)
    path = tmp_path / segment_name(9)
    data = path.read_bytes()
    for position in sample(range(0, len(data) - len(lines_of(path)[-1]), 3)):
        changed = bytearray(data)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        with pytest.raises(Damaged):
            recover(tmp_path, None)


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_a_sealed_journal_that_was_cut_off_is_noticed(tmp_path, kept):
    story(tmp_path, sealed_records=4)
    for number in (5, 9):
        path = tmp_path / segment_name(number)
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * kept)])
        assert refused(tmp_path)[1].segment == number
        path.write_bytes(data)


# Compressed segments.


@pytest.mark.parametrize("number", [5, 9])
@pytest.mark.parametrize(
    "harm",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: b"junk" + data,
        lambda data: data + b"junk",
        lambda data: data[:100] + b"\xff\xff\xff\xff" + data[104:],
        lambda data: data[:-8] + b"\0\0\0\0" + data[-4:],
        lambda data: gzip.compress(gzip.decompress(data)[:-1]),
        lambda data: gzip.compress(gzip.decompress(data) + b"{"),
        lambda data: gzip.compress(gzip.decompress(data).replace(b"b1.2", b"b1.9")),
    ],
    ids=["empty", "short", "half", "junk before", "junk behind", "data", "checksum", "torn", "longer", "changed"],
)
def test_damage_in_a_compressed_segment(tmp_path, number, harm):
    story(tmp_path, sealed_records=4)
    truth = fold(decodable(tmp_path))
    compressed(tmp_path, 1, 5, 9)
    path = tmp_path / (segment_name(number) + ".gz")
    path.write_bytes(harm(path.read_bytes()))
    message, damage, _ = refused(tmp_path)
    assert message.startswith(str(path))
    assert damage.segment == number
    state = truth if number == 5 else fold(decodable(tmp_path))
    assert go_on(tmp_path, damage, state).next_seq > RECORDS


# Damage in the manifest.


def cut_manifest(lines):
    del lines[1:]


def no_manifest(lines):
    lines.clear()


def garbage(lines):
    lines[1] = b"garbage\n"


def garbage_at_the_end(lines):
    lines[-1] = b"garbage\n"


def another_number(lines):
    lines[0] = lines[0].replace(b'"records":4', b'"records":5')


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (no_manifest, "is not there, which segment 5 refers to, nor are those that 1 later segments refer to"),
        (cut_manifest, "is not there, which segment 9 refers to: it was cut off or replaced"),
        (garbage, f"{MANIFEST_NAME}, line 2: not a manifest entry"),
        (garbage_at_the_end, f"{MANIFEST_NAME}, line 3: not a manifest entry"),
        (another_number, f"{MANIFEST_NAME}, line"),
    ],
)
def test_damage_in_the_manifest(tmp_path, harm, said):
    story(tmp_path, sealed_records=4)
    edit(harm)(tmp_path / MANIFEST_NAME)
    message, damage, _ = refused(tmp_path)
    assert said in message
    recovered = go_on(tmp_path, damage, fold(decodable(tmp_path)))
    assert recovered.next_seq > RECORDS


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_manifest_that_is_gone(tmp_path, is_removed):
    """It is missed by the segments that were begun when it was there, unless these are gone as well."""
    story(tmp_path, sealed_records=4)
    tmp_path.joinpath(MANIFEST_NAME).unlink()
    if is_removed:
        for number in (5, 9):
            tmp_path.joinpath(segment_name(number)).unlink()
        assert recover(tmp_path, RegistryFold()).next_seq == 5
    else:
        message, damage, _ = refused(tmp_path)
        assert "is not there, which segment 5 refers to" in message
        go_on(tmp_path, damage, fold(decodable(tmp_path)))


def test_a_journal_of_which_only_the_manifest_is_left(tmp_path):
    story(tmp_path, sealed_records=4)
    for path in list_segments(tmp_path):
        path.unlink()
    message, damage, _ = refused(tmp_path)
    assert message.startswith(f"{tmp_path / segment_name(9)}: the segment is missing, with the records 9 to 12.")
    assert go_on(tmp_path, damage, fold([])).next_seq == 13


# What is left as it is when a journal is refused, and what is not damage.


def test_what_a_crash_left_is_left_when_the_journal_is_damaged(tmp_path):
    """It may be what the journal is put right with."""
    story(tmp_path, sealed_records=2)
    path = tmp_path / segment_name(5)
    good = path.read_bytes()
    tmp_path.joinpath(path.name + ".gz").write_bytes(gzip.compress(good))
    tmp_path.joinpath(segment_name(13) + ".new").write_bytes(b"{")
    last = tmp_path / segment_name(9)
    last.write_bytes(last.read_bytes() + b'{"v":4')
    tmp_path.joinpath(segment_name(1)).write_bytes(lines_of(tmp_path / segment_name(1))[0])
    path.write_bytes(good.replace(b"b1.2", b"b1.9"))
    refused(tmp_path)


def test_several_damages_are_all_behind_the_new_chain(tmp_path):
    story(tmp_path, sealed_records=4)
    replaced(4, b'"event":"s', b'"event":"z')(tmp_path / segment_name(1))
    tmp_path.joinpath(segment_name(5)).unlink()
    replaced(5, b'"event":"s', b'"event":"z')(tmp_path / segment_name(9))
    edit(garbage)(tmp_path / MANIFEST_NAME)
    _, damage, _ = refused(tmp_path)
    expected = RegistryFold()
    with tmp_path.joinpath(segment_name(9)).open("rb") as file:
        _, snapshot, *records = file
    expected.take(decode_part(snapshot).state)
    for text in records:
        with suppress(JournalError):
            found = decode(text)
            expected.apply(found.event, found.time)
    assert go_on(tmp_path, damage, expected.state).next_seq > RECORDS


def test_a_journal_that_was_salvaged_twice(tmp_path):
    story(tmp_path, sealed_records=4)
    tmp_path.joinpath(segment_name(5)).unlink()
    _, damage, _ = refused(tmp_path)
    first = go_on(tmp_path, damage, fold_of_last(tmp_path))
    last = list_segments(tmp_path)[-2]
    replaced(1, b'"boot":"next"', b'"boot":"text"')(last)
    _, damage, _ = refused(tmp_path)
    assert damage.segment == first_seq(last)
    second = go_on(tmp_path, damage, fold([]))
    assert second.next_seq > first.next_seq
    assert len({first_seq(path) for path in list_segments(tmp_path)}) == len(list_segments(tmp_path))


def fold_of_last(directory):
    """The registry that the last segment says by itself."""
    found = RegistryFold()
    reader = SegmentReader(list_segments(directory)[-1], take=found.take)
    for line in reader.read():
        found.apply(line.record.event, line.record.time)
    reader.close()
    return found.state


def test_the_only_segment_with_a_snapshot_that_is_damaged(tmp_path):
    """There is nothing to go back to: what can be read of it has to do."""
    story(tmp_path, vouched=False)
    for number in (1, 5):
        tmp_path.joinpath(segment_name(number)).unlink()
    path = tmp_path / segment_name(9)
    good = path.read_bytes()
    replaced(2, b'"sessions"', b"sessions")(path)
    _, damage, _ = refused(tmp_path)
    assert salvage(tmp_path, damage, RegistryFold()).next_seq > RECORDS
    # With a header that cannot be read, the snapshot still can.
    path.write_bytes(good)
    state = fold_of_last(tmp_path)
    replaced(1, b'"parts"', b"parts")(path)
    _, damage, _ = refused(tmp_path)
    go_on(tmp_path, damage, state)


def test_a_journal_that_cannot_be_read_at_all_cannot_be_salvaged(tmp_path):
    tmp_path.joinpath(segment_name(1)).mkdir()
    with pytest.raises(JournalError, match=f"cannot salvage {tmp_path}"):
        salvage(tmp_path, Damage(segment=1, line=1, reason="x"), RegistryFold())
