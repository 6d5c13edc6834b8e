"""Tamperings with single lines: what they say, how they say it, and where they stand."""

from __future__ import annotations

import json
import re

from tests import tampering
from tests.tampering import Copy
from tests.tamperings.kinds import Kind, elsewhere, in_line, replaced

TRUE = "The line is exactly what a server could have written. Only a seal, or the hash of one, shows that it did not."
"""Why nobody can tell."""


def _of_another(copy: Copy, number: int, index: int) -> None:
    copy.forge(number, index, elsewhere)


def _rest_of_another(copy: Copy, number: int, index: int) -> None:
    for each in range(index, len(copy.segments[number])):
        copy.forge(number, each, elsewhere)


def _swap_and_renumber(copy: Copy, number: int, index: int) -> None:
    numbers = [copy.record(number, each) for each in (index, index + 1)]
    tampering.swap(copy, number, index)
    for each, seq in zip((index, index + 1), numbers, strict=True):
        copy.forge(number, each, lambda line, seq=seq: re.sub(rb'"seq":\d+', b'"seq":%d' % seq, line, count=1))


def _drop_and_renumber(copy: Copy, number: int, index: int) -> None:
    """Take out a record, and number all later ones of the journal anew; segments keep their names."""
    tampering.drop(copy, number, index)
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
    Kind("another moment", in_line(tampering.changed), TRUE),
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
    Kind("an older schema version", replaced(rb'\{"v":3', b'{"v":2')),
    Kind("an unknown schema version", replaced(rb'\{"v":3', b'{"v":9')),
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
    Kind("the beginning of a record instead of it", tampering.overwrite),
]

STANDS = [
    Kind("a record dropped", tampering.drop),
    Kind("a record dropped, and the later ones of its segment numbered anew", _drop_and_renumber,
         "In the last segment no number and no header shows it."),
    Kind("the first record dropped", lambda copy, number, index: tampering.drop(copy, number, copy.begin(number))),
    Kind("the last record dropped", lambda copy, number, index: tampering.drop(copy, number, -1),
         "In the last segment it might not have been written."),
    Kind("a record repeated", tampering.repeat),
    Kind("a record repeated at the end", tampering.repeat_later),
    Kind("two records swapped", tampering.swap),
    Kind("two records swapped, with each other's numbers", _swap_and_renumber,
         "Each line is what a server could have written. The audit may find that records contradict each other."),
    Kind("a record moved to the beginning", tampering.move_to_the_beginning),
    Kind("a record moved to the end", tampering.move_to_the_end),
    Kind("a record moved to another segment", tampering.move_to_another),
    Kind("a record of another segment put in", tampering.put_in_another),
    Kind("a record put in", tampering.put_in_one_that_fits),
    Kind("a record added at the end", _after_the_last,
         "In the last segment it might have been written."),
    Kind("an empty line put in", tampering.put_in_nothing),
    Kind("junk put in", tampering.put_in_junk),
    Kind("two lines joined", tampering.join),
    Kind("a line in two", tampering.part),
]  # fmt: skip

KINDS = [*SAID, *WRITTEN, *STANDS]
