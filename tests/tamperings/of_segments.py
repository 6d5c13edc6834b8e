"""Tamperings with segments as such, their files, their headers and their snapshots."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable

from bussrv.journal.segment import segment_name
from tests.inspection.journals import STRANGER, House
from tests.tamperings.copies import Copy, flipped, flipped_in
from tests.tamperings.kinds import Kind, Tamper, elsewhere, in_header, in_snapshot
from tests.tamperings.of_lines import TRUE

REMOVED = "a segment removed"


def _without(copy: Copy, number: int, index: int) -> None:
    del copy.segments[number]


def _replace(copy: Copy, number: int, index: int) -> None:
    other = next(each for each in copy.numbers if each != number)
    copy.segments[number] = list(copy.segments[other])


def _cut_at_a_line(copy: Copy, number: int, index: int) -> None:
    del copy.segments[number][index:]


def _cut_in_a_line(copy: Copy, number: int, index: int) -> None:
    copy.segments[number][index:] = [copy.segments[number][index][:70]]


def _cut_to_the_header(copy: Copy, number: int, index: int) -> None:
    del copy.segments[number][1:]


def _emptied(copy: Copy, number: int, index: int) -> None:
    copy.segments[number] = []


def _byte_order_mark(copy: Copy, number: int, index: int) -> None:
    copy.segments[number][0] = b"\xef\xbb\xbf" + copy.segments[number][0]


def _header_again(copy: Copy, number: int, index: int) -> None:
    copy.segments[number].insert(index, copy.segments[number][0])


def _state(copy: Copy, number: int, change: object) -> None:
    """Change the members of the first part of the snapshot."""
    if copy.begin(number) > 1:
        line = json.loads(copy.segments[number][1])
        change(line["state"])  # type: ignore[operator]
        copy.segments[number][1] = json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _session_more(copy: Copy, number: int, index: int) -> None:
    _state(copy, number, lambda state: state["sessions"].append(
        {**state["sessions"][0], "id": "b9.1", "routing_id": "mallory", "peer": "192.0.2.66:6666"}))  # fmt: skip


def _session_less(copy: Copy, number: int, index: int) -> None:
    _state(copy, number, lambda state: state["sessions"].pop())


def _service_more(copy: Copy, number: int, index: int) -> None:
    def change(state: dict[str, object]) -> None:
        state.setdefault("services", {})["vault"] = {state["sessions"][0]["id"]: 1}  # type: ignore[index]

    _state(copy, number, change)


def _part_dropped(copy: Copy, number: int, index: int) -> None:
    """And the number of parts in the header made to fit."""
    if copy.begin(number) > 1:
        del copy.segments[number][copy.begin(number) - 1]
        parts = copy.begin(number) - 1
        copy.forge(number, 0, lambda line: re.sub(rb'"parts":\d+', b'"parts":%d' % parts, line, count=1))


def _parts_swapped(copy: Copy, number: int, index: int) -> None:
    lines = copy.segments[number]
    if copy.begin(number) > 2:
        lines[1], lines[2] = lines[2], lines[1]


def _part_of_another_number(copy: Copy, number: int, index: int) -> None:
    copy.forge(number, copy.begin(number) - 1, lambda line: flipped_in(line, rb'"part":(\d)'))


def _snapshot_dropped(copy: Copy, number: int, index: int) -> None:
    del copy.segments[number][1 : copy.begin(number)]


def _records_dropped(copy: Copy, number: int, index: int) -> None:
    del copy.segments[number][copy.begin(number) :]


def _says_salvaged(copy: Copy, number: int, index: int) -> None:
    """It would excuse whatever is before it."""
    said = b',"salvaged":{"segment":%d,"line":3,"reason":"bad disk"}' % copy.numbers[1]
    copy.forge(number, 0, lambda line: re.sub(rb'"prev":"[0-9a-f]{64}"', b'"prev":"%b"' % (b"0" * 64), line))
    copy.forge(number, 0, lambda line: line.replace(b"}\n", said + b"}\n"))


def _cut_at_its_first_seal(copy: Copy, number: int, index: int) -> None:
    """For example from a backup."""
    seal = json.loads(copy.manifest[copy.seals_of(number)[0]])
    del copy.segments[number][copy.begin(number) + seal["records"] :]


def _journal_cut_at_its_first_seal(copy: Copy, number: int, index: int) -> None:
    """A good journal of yesterday."""
    del copy.manifest[copy.seals_of(number)[0] + 1 :]
    _cut_at_its_first_seal(copy, number, index)
    for each in [each for each in copy.numbers if each > number]:
        del copy.segments[each]


def _behind(copy: Copy, number: int) -> int:
    """The next segment."""
    return copy.numbers[copy.numbers.index(number) + 1]


def _two_removed(copy: Copy, number: int, index: int) -> None:
    del copy.segments[_behind(copy, number)], copy.segments[number]


def _two_swapped(copy: Copy, number: int, index: int) -> None:
    other = _behind(copy, number)
    copy.segments[number], copy.segments[other] = copy.segments[other], copy.segments[number]


def _of_another_server(copy: Copy, number: int, index: int) -> None:
    stranger = copy.stranger()
    copy.segments[number] = stranger.segments[stranger.numbers[min(1, copy.numbers.index(number))]]


# What is done to files.


def _on_file(change: Callable[[bytes], bytes]) -> Tamper:
    """Change the file of a segment."""

    def tamper(copy: Copy, number: int, index: int) -> None:
        path = copy.paths[number]
        copy.on_disk.append(lambda: path.write_bytes(change(path.read_bytes())))

    return tamper


def _renamed(copy: Copy, number: int, index: int) -> None:
    """Its lines are all there, under a name that is not theirs."""
    path = copy.paths[number]
    copy.on_disk.append(lambda: path.rename(path.with_name(segment_name(number + 1))))


def _compressed(copy: Copy, number: int, index: int) -> None:
    """As retention does."""
    path = copy.paths[number]

    def compress() -> None:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()

    copy.on_disk.append(compress)


def _one_more(copy: Copy, number: int, index: int) -> None:
    """It goes on where the journal ended, as if the server had been started once more."""
    server = copy.server

    def boot_again() -> None:
        house = House(copy.directory, seals=False, server=server)
        house.boot()
        house.close()

    copy.on_disk.append(boot_again)


def _one_more_sealed(copy: Copy, number: int, index: int) -> None:
    def seal() -> None:
        again = Copy(copy.directory)
        again.add_entry(STRANGER, **again.seal_of(again.numbers[-1]))
        again.save()

    _one_more(copy, number, index)
    copy.on_disk.append(seal)


SNAPSHOTS = [
    Kind("another address in the snapshot", in_snapshot(rb'"peer":"[^"]*"', b'"peer":"192.0.2.66:6666"')),
    Kind("another routing id in the snapshot", in_snapshot(rb'"routing_id":"[^"]*"', b'"routing_id":"mallory"')),
    Kind("another user in the snapshot", in_snapshot(rb'"actor":(null|"[^"]*")', b'"actor":"root"')),
    Kind("another claimed user in the snapshot", in_snapshot(rb'"claimed":(null|"[^"]*")', b'"claimed":"root"')),
    Kind("another time in the snapshot", in_snapshot(rb'"opened":\d', b'"opened":9')),
    Kind("a session more in the snapshot", _session_more),
    Kind("a session less in the snapshot", _session_less),
    Kind("a service more in the snapshot", _service_more),
    Kind("a part of the snapshot dropped", _part_dropped),
    Kind("two parts of the snapshot swapped", _parts_swapped),
    Kind("a space in the snapshot", in_snapshot(rb'"sessions":', b'"sessions": ')),
    Kind("a member twice in the snapshot", in_snapshot(rb'"peer":', b'"peer":"x","peer":')),
    Kind("an unknown member in the snapshot", in_snapshot(rb'"state":\{', b'"state":{"note":1,')),
]

HEADERS = [
    Kind("another time in the header", in_header(rb'("time":"[^"]*)\d\d\dZ', rb"\g<1>001Z"), TRUE),
    Kind("another boot in the header", in_header(rb'"boot":"[^"]*"', b'"boot":"b9"'), TRUE),
    Kind("another server in the header", lambda copy, number, index: copy.forge(number, 0, elsewhere)),
    Kind("another number in the header", in_header(rb'"segment":\d+', b'"segment":77')),
    Kind("more parts in the header", in_header(rb'"parts":\d+', b'"parts":9')),
    Kind("a header that says it was salvaged",
         in_header(rb',"tree":', b',"salvaged":{"segment":1,"line":2,"reason":"x"},"tree":')),
    Kind("a space in the header", in_header(rb'"parts":', b'"parts": ')),
    Kind("an unknown member in the header", in_header(rb"\}\n", b',"note":1}\n')),
    Kind("the header twice", _header_again),
    Kind("the header dropped", lambda copy, number, index: copy.segments[number].pop(0)),
    Kind("a byte order mark before the segment", _byte_order_mark),
]  # fmt: skip

SEGMENTS = [
    Kind(REMOVED, _without, "The end of a journal may always be missing: note seals elsewhere."),
    Kind("a segment replaced by another one", _replace),
    Kind("a segment cut at a line", _cut_at_a_line, "In the last segment the rest might not have been written."),
    Kind("a segment cut in a line", _cut_in_a_line, "In the last segment a crash leaves the same."),
    Kind("a segment cut to its header", _cut_to_the_header),
    Kind("a segment emptied", _emptied),
]

KINDS = [*SNAPSHOTS, *HEADERS, *SEGMENTS]
"""Those of the matrix."""

OTHERS = [
    Kind("a part of the snapshot with another number", _part_of_another_number),
    Kind("the first part of the snapshot dropped", lambda copy, number, index: copy.segments[number].pop(1)),
    Kind("the snapshot dropped", _snapshot_dropped),
    Kind("all records of a segment dropped", _records_dropped),
    Kind("a header that says that the segment was salvaged, and begins a chain", _says_salvaged),
    Kind("a segment as it was at its first seal", _cut_at_its_first_seal),
    Kind("the journal as it was at the first seal of a segment", _journal_cut_at_its_first_seal),
    Kind("two segments removed", _two_removed),
    Kind("two segments swapped", _two_swapped),
    Kind("a segment of another server", _of_another_server),
    Kind("a segment renamed", _renamed),
    Kind("a segment more", _one_more),
    Kind("a segment more, sealed by a stranger", _one_more_sealed),
    Kind("a segment compressed", _compressed),
    Kind("a byte of a compressed file flipped", _on_file(lambda data: flipped(data, len(data) // 2))),
    Kind("the checksum of a compressed file flipped", _on_file(lambda data: flipped(data, len(data) - 6))),
    Kind("the time in a compressed file flipped", _on_file(lambda data: flipped(data, 5))),
    Kind("a compressed file cut", _on_file(lambda data: data[:-20])),
]
"""Those that only some tests try, each in journals that it fits."""
