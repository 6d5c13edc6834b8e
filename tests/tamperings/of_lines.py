"""Tamperings with single lines: what they say, how they say it, and where they stand."""

from __future__ import annotations

import json
import re

from bussrv.journal.chain import line_hash
from tests.tamperings.copies import Copy, changed, flipped_in
from tests.tamperings.kinds import Kind, Tamper, elsewhere, in_line, replaced

TRUE = "The line is exactly what a server could have written. Only a seal, or the hash of one, shows that it did not."
"""Why nobody can tell."""


def _drop(copy: Copy, number: int, index: int) -> None:
    del copy.segments[number][index]


def _drop_three(copy: Copy, number: int, index: int) -> None:
    del copy.segments[number][index : index + 3]


def _repeat(copy: Copy, number: int, index: int) -> None:
    copy.segments[number].insert(index, copy.segments[number][index])


def _repeat_at_the_end(copy: Copy, number: int, index: int) -> None:
    copy.segments[number].append(copy.segments[number][index])


def _swap(copy: Copy, number: int, index: int) -> None:
    lines = copy.segments[number]
    other = index + 1 if index + 1 < len(lines) else index - 1
    lines[index], lines[other] = lines[other], lines[index]


def _swap_apart(copy: Copy, number: int, index: int) -> None:
    lines, other = copy.segments[number], index - 4
    lines[index], lines[other] = lines[other], lines[index]


def _move_to_the_end(copy: Copy, number: int, index: int) -> None:
    lines = copy.segments[number]
    line = lines.pop(index)
    lines.insert(len(lines) - 1 if index + 1 < len(lines) else index - 1, line)


def _move_to_the_beginning(copy: Copy, number: int, index: int) -> None:
    begin = copy.begin(number)
    line = copy.segments[number].pop(index)
    copy.segments[number].insert(begin if index > begin else begin + 1, line)


def _move_to_another(copy: Copy, number: int, index: int) -> None:
    other = next(each for each in copy.numbers if each != number)
    copy.segments[other].insert(copy.begin(other) + 2, copy.segments[number].pop(index))


def _put_in_of_another(copy: Copy, number: int, index: int) -> None:
    other = copy.numbers[-1] if number != copy.numbers[-1] else copy.numbers[0]
    copy.segments[number].insert(index, copy.segments[other][-1])


def _put_in(line: bytes) -> Tamper:
    return lambda copy, number, index: copy.segments[number].insert(index, line)


def _put_in_one_that_fits(copy: Copy, number: int, index: int) -> None:
    copy.segments[number].insert(index, changed(copy.segments[number][index]))


def _join(line: bytes) -> bytes:
    return line.rstrip(b"\n") + b" "


def _in_two(line: bytes) -> bytes:
    return line[:100] + b"\n" + line[100:]


def _other_address(line: bytes) -> bytes:
    """Said to come from another client, at an address of the same length."""
    other = re.sub(rb'"peer":"10\.0\.', b'"peer":"10.9.', line, count=1)
    return other if other != line else changed(line)


def _other_addresses(copy: Copy, number: int, index: int) -> None:
    """In every line of the journal, snapshots included."""
    for lines in copy.segments.values():
        lines[:] = [line.replace(b'"peer":"10.0.', b'"peer":"10.9.') for line in lines]


def _add_the_next(copy: Copy, number: int, index: int) -> None:
    """A record that goes on after the last one of a segment, chained."""
    line = copy.segments[number][-1]
    seq = copy.record(number, -1)
    members = {**json.loads(line), "prev": line_hash(line), "seq": seq + 1, "event": "config.reloaded"}
    wanted = ("v", "prev", "seq", "time", "mono", "server", "boot", "outcome", "event")
    said = {name: members[name] for name in wanted} | {"outcome": "ok"}
    copy.segments[number].append(json.dumps(said, separators=(",", ":")).encode() + b"\n")


def _add(line: bytes) -> Tamper:
    return lambda copy, number, index: copy.segments[number].append(line)


def _of_another(copy: Copy, number: int, index: int) -> None:
    copy.forge(number, index, elsewhere)


def _rest_of_another(copy: Copy, number: int, index: int) -> None:
    for each in range(index, len(copy.segments[number])):
        copy.forge(number, each, elsewhere)


def _swap_and_renumber(copy: Copy, number: int, index: int) -> None:
    numbers = [copy.record(number, each) for each in (index, index + 1)]
    _swap(copy, number, index)
    for each, seq in zip((index, index + 1), numbers, strict=True):
        copy.forge(number, each, lambda line, seq=seq: re.sub(rb'"seq":\d+', b'"seq":%d' % seq, line, count=1))


def _drop_and_renumber(copy: Copy, number: int, index: int) -> None:
    """Take out a record, and number all later ones of the journal anew; segments keep their names."""
    _drop(copy, number, index)
    lines = copy.segments[number]
    for each in range(index, len(lines)):
        lines[each] = re.sub(rb'"seq":(\d+)', lambda found: b'"seq":%d' % (int(found[1]) - 1), lines[each], count=1)


def _reordered(line: bytes) -> bytes:
    members = json.loads(line)
    members["mono"] = members.pop("mono")
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _all_lines(copy: Copy, number: int, end: bytes) -> None:
    copy.segments[number] = [line[:-1] + end for line in copy.segments[number]]


def _after_the_last(copy: Copy, number: int, index: int) -> None:
    line = copy.segments[number][-1]
    seq = copy.record(number, len(copy.segments[number]) - 1) + 1
    copy.segments[number].append(re.sub(rb'"seq":\d+', b'"seq":%d' % seq, line, count=1))


SAID = [
    Kind("another moment", in_line(changed), TRUE),
    Kind("another time of the day", replaced(rb'("time":"[^"]*)\d\dZ', rb"\g<1>07Z"), TRUE),
    Kind("another boot", replaced(rb'"boot":"[^"]*"', b'"boot":"b9"'), TRUE),
    Kind("another session", replaced(rb'"session":"[^"]*"', b'"session":"b9.1"'), TRUE),
    Kind("a member more of those that servers write", replaced(rb"\}\n", b',"suppressed":3}\n'), TRUE),
    Kind("another server", _of_another),
    Kind("the rest of the segment in another server's name", _rest_of_another),
    Kind("another number", replaced(rb'"seq":\d+', b'"seq":999999')),
    Kind("another hash of the line before", replaced(rb'"prev":"[0-9a-f]{8}', b'"prev":"00000000'), is_mended=True),
    Kind("an outcome that the event does not have", replaced(rb'"outcome":"[a-z]*"', b'"outcome":"failed"')),
    Kind("an unknown outcome", replaced(rb'"outcome":"[a-z]*"', b'"outcome":"fine"')),
    Kind("an unknown event", replaced(rb'"event":"', b'"event":"un')),
    Kind("an older schema version", replaced(rb'\{"v":4', b'{"v":2')),
    Kind("an unknown schema version", replaced(rb'\{"v":4', b'{"v":9')),
    Kind("a time that no clock shows", replaced(rb'"time":"\d{4}-\d\d-\d\d', b'"time":"2027-02-30')),
]

WRITTEN = [
    Kind("the event twice", replaced(rb'"event":"', b'"event":"config.reloaded","event":"')),
    Kind("the same event twice", replaced(rb'("event":"[^"]*")', rb"\1,\1")),
    Kind("another member twice", replaced(rb'"mono":(\d+)', rb'"mono":7,"mono":\1')),
    Kind("a member that nobody knows", replaced(rb"\}\n", b',"note":"hello"}\n')),
    Kind("a member that is null", replaced(rb"\}\n", b',"suppressed":null}\n')),
    Kind("members in another order", in_line(_reordered)),
    Kind("a space after a colon", replaced(rb'"mono":', b'"mono": ')),
    Kind("a space at the end of the line", replaced(rb"\n", b" \n")),
    Kind("a space at the beginning of the line", replaced(rb"^", b" ")),
    Kind("a carriage return at the end of the line", replaced(rb"\n", b"\r\n")),
    Kind("a carriage return at the end of every line", lambda copy, number, index: _all_lines(copy, number, b"\r\n")),
    Kind(
        "an escape that is not needed",
        replaced(rb'"outcome":"(.)', rb'"outcome":"\\u00\g<1>'.replace(b"\\g<1>", b"6f")),
    ),
    Kind("a number with a point", replaced(rb'"mono":(\d+)', rb'"mono":\1.0')),
    Kind("a number with a leading zero", replaced(rb'"mono":', b'"mono":0')),
    Kind("a number as text", replaced(rb'"mono":(\d+)', rb'"mono":"\1"')),
    Kind("a byte that is not UTF-8", replaced(rb'"boot":"', b'"boot":"\xff')),
    Kind("a NUL at the end of the line", replaced(rb"\n", b"\0\n")),
    Kind("a second value after the first", replaced(rb"\n", b"{}\n")),
    Kind("a comment at the end of the line", replaced(rb"\n", b"//\n")),
    Kind("junk instead of a record", in_line(lambda line: b"junk\n")),
    Kind("the beginning of a record instead of it", in_line(lambda line: line[:30] + b"\n")),
]

STANDS = [
    Kind("a record dropped", _drop),
    Kind("a record dropped, and the later ones of its segment numbered anew", _drop_and_renumber,
         "In the last segment no number and no header shows it."),
    Kind("the first record dropped", lambda copy, number, index: _drop(copy, number, copy.begin(number))),
    Kind("the last record dropped", lambda copy, number, index: _drop(copy, number, -1),
         "In the last segment it might not have been written."),
    Kind("a record repeated", _repeat),
    Kind("a record repeated at the end", _repeat_at_the_end),
    Kind("two records swapped", _swap),
    Kind("two records swapped, with each other's numbers", _swap_and_renumber,
         "Each line is what a server could have written. The audit may find that records contradict each other."),
    Kind("a record moved to the beginning", _move_to_the_beginning),
    Kind("a record moved to the end", _move_to_the_end),
    Kind("a record moved to another segment", _move_to_another),
    Kind("a record of another segment put in", _put_in_of_another),
    Kind("a record put in", _put_in_one_that_fits),
    Kind("a record added at the end", _after_the_last,
         "In the last segment it might have been written."),
    Kind("an empty line put in", _put_in(b"\n")),
    Kind("junk put in", _put_in(b"junk\n")),
    Kind("two lines joined", in_line(_join)),
    Kind("a line in two", in_line(_in_two)),
]  # fmt: skip

KINDS = [*SAID, *WRITTEN, *STANDS]
"""Those of the matrix."""

OTHER_ADDRESS = "another address"

OTHERS = [
    Kind(OTHER_ADDRESS, in_line(_other_address)),
    Kind("another address everywhere", _other_addresses),
    Kind("a digit of the number flipped", in_line(lambda line: flipped_in(line, rb'"seq":\d*(\d)'))),
    Kind("another name of a member", replaced(b'"event"', b'"dvent"')),
    Kind("another end of the line", replaced(rb"\n", b"\x0b")),
    Kind("zeros instead of a record", in_line(lambda line: bytes(len(line)))),
    Kind("a space after every colon", in_line(lambda line: line.replace(b'":', b'": '))),
    Kind(
        "three records dropped", lambda copy, number, index: copy.segments[number].__delitem__(slice(index, index + 3))
    ),
    Kind("two records swapped that are apart", _swap_apart),
    Kind("a record added at the end, chained", _add_the_next),
    Kind("the beginning of a line added at the end", _add(b'{"v":4,"prev":"0')),
    Kind("junk added at the end", _add(b"\x00junk")),
]
"""Those that only some tests try, each in journals that it fits."""
