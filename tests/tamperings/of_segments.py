"""Tamperings with segments as such, their headers, their snapshots, and the manifest."""

from __future__ import annotations

import json
import re

from tests.tampering import Copy
from tests.tamperings.kinds import Kind, elsewhere, in_header, in_snapshot
from tests.tamperings.of_lines import TRUE

REMOVED = "a segment removed"
SUPERSEDED = "a seal edited that the closing seal supersedes"


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


def _entries_of(copy: Copy, number: int) -> list[int]:
    """The indices of the seals of a segment among the lines of the manifest; the last one is the closing seal."""
    return [i for i, line in enumerate(copy.manifest) if json.loads(line).get("segment") == number]


def _entry_of(copy: Copy, number: int) -> int:
    return _entries_of(copy, number)[0]


def _seal_edited(copy: Copy, number: int, index: int) -> None:
    _edit_seal(copy, _entries_of(copy, number)[-1])


def _superseded_seal_edited(copy: Copy, number: int, index: int) -> None:
    _edit_seal(copy, _entries_of(copy, number)[0])


def _edit_seal(copy: Copy, at: int) -> None:
    copy.manifest[at] = re.sub(rb'"digest":"[0-9a-f]{8}', b'"digest":"00000000', copy.manifest[at], count=1)


def _seal_dropped(copy: Copy, number: int, index: int) -> None:
    del copy.manifest[_entry_of(copy, number)]


def _seals_swapped(copy: Copy, number: int, index: int) -> None:
    at = min(_entry_of(copy, number), len(copy.manifest) - 2)
    copy.manifest[at], copy.manifest[at + 1] = copy.manifest[at + 1], copy.manifest[at]


def _seal_repeated(copy: Copy, number: int, index: int) -> None:
    at = _entry_of(copy, number)
    copy.manifest.insert(at, copy.manifest[at])


def _seals_cut_off(copy: Copy, number: int, index: int) -> None:
    del copy.manifest[_entry_of(copy, number) :]


def _manifest_removed(copy: Copy, number: int, index: int) -> None:
    copy.manifest = []


def _junk_in_the_manifest(copy: Copy, number: int, index: int) -> None:
    copy.manifest.insert(_entry_of(copy, number), b"junk\n")


def _removal_noted(copy: Copy, number: int, index: int) -> None:
    """And the segment removed."""
    seal = copy.seal_of(number)
    said = {name: seal[name] for name in ("segment", "last_seq", "bytes", "digest")}
    copy.add_entry(None, kind="pruned", reason="age", **said)
    del copy.segments[number]


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
         in_header(rb"\}\n", b',"salvaged":{"segment":1,"line":2,"reason":"x"}}\n')),
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

MANIFESTS = [
    Kind("a closing seal edited", _seal_edited, is_about_seals=True),
    Kind(SUPERSEDED, _superseded_seal_edited,
         "Of older segments, `verify` alone checks such seals.", is_about_seals=True),
    Kind("a seal dropped", _seal_dropped, is_about_seals=True),
    Kind("two seals swapped", _seals_swapped, is_about_seals=True),
    Kind("a seal repeated", _seal_repeated, is_about_seals=True),
    Kind("all seals from one on cut off", _seals_cut_off, is_about_seals=True),
    Kind("the manifest removed", _manifest_removed, is_about_seals=True),
    Kind("junk in the manifest", _junk_in_the_manifest, is_about_seals=True),
    Kind("a segment removed, and its removal noted", _removal_noted,
         "Without a key anybody can write that retention removed old segments.", is_about_seals=True),
]  # fmt: skip

KINDS = [*SNAPSHOTS, *HEADERS, *SEGMENTS, *MANIFESTS]
