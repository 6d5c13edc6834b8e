"""Tamperings with the manifest: with seals, keys, and notes of removals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from bussrv.journal.chain import START, line_hash
from bussrv.journal.keys import PrivateKey
from tests.inspection.journals import STRANGER
from tests.tamperings.copies import Copy, changed, entry_line, flipped_in
from tests.tamperings.kinds import Kind, Tamper

SUPERSEDED = "a seal edited that the closing seal supersedes"


def _seal_edited(copy: Copy, number: int, index: int) -> None:
    _edit_seal(copy, copy.seals_of(number)[-1])


def _superseded_seal_edited(copy: Copy, number: int, index: int) -> None:
    _edit_seal(copy, copy.seals_of(number)[0])


def _edit_seal(copy: Copy, at: int) -> None:
    copy.manifest[at] = re.sub(rb'"digest":"[0-9a-f]{8}', b'"digest":"00000000', copy.manifest[at], count=1)


def _seal_dropped(copy: Copy, number: int, index: int) -> None:
    del copy.manifest[copy.seals_of(number)[0]]


def _seals_swapped(copy: Copy, number: int, index: int) -> None:
    at = min(copy.seals_of(number)[0], len(copy.manifest) - 2)
    copy.manifest[at], copy.manifest[at + 1] = copy.manifest[at + 1], copy.manifest[at]


def _seal_repeated(copy: Copy, number: int, index: int) -> None:
    at = copy.seals_of(number)[0]
    copy.manifest.insert(at, copy.manifest[at])


def _seals_cut_off(copy: Copy, number: int, index: int) -> None:
    del copy.manifest[copy.seals_of(number)[0] :]


def _manifest_removed(copy: Copy, number: int, index: int) -> None:
    copy.manifest = []


def _junk_in_the_manifest(copy: Copy, number: int, index: int) -> None:
    copy.manifest.insert(copy.seals_of(number)[0], b"junk\n")


def _note_removal(copy: Copy, number: int, key: PrivateKey | None) -> None:
    seal = copy.seal_of(number)
    said = {name: seal[name] for name in ("segment", "last_seq", "bytes", "digest")}
    copy.add_entry(key, kind="pruned", reason="age", **said)
    del copy.segments[number]


def _removal_noted(copy: Copy, number: int, index: int) -> None:
    _note_removal(copy, number, None)


def _removal_noted_by_a_stranger(copy: Copy, number: int, index: int) -> None:
    _note_removal(copy, number, STRANGER)


def _removal_of_another_noted(copy: Copy, number: int, index: int) -> None:
    """It names another digest than the seal of that segment."""
    copy.forge(number, -1, changed)
    _note_removal(copy, number, None)


def _all_seals_dropped(copy: Copy, number: int, index: int) -> None:
    """And the others numbered and chained anew, so that the manifest fits itself."""
    kept = [line for line in copy.manifest if json.loads(line).get("segment") != number]
    copy.manifest = [re.sub(rb'"entry":\d+', b'"entry":%d' % i, line, count=1) for i, line in enumerate(kept, 1)]
    copy.seal_anew(None)


def _seals_cut_off_from_the_one_before(copy: Copy, number: int, index: int) -> None:
    del copy.manifest[copy.seals_of(number)[0] - 1 :]


def _last_seal_cut_off(copy: Copy, number: int, index: int) -> None:
    del copy.manifest[-1]


def _seal_of_other_lines(copy: Copy, number: int, index: int) -> None:
    """And the manifest chained anew, as seals that are not signed can be."""
    lines = copy.segments[number]
    copy.segments[number] = [*lines[:-2], changed(lines[-2]), lines[-1]]
    copy.seal_anew(None, copy.seals_of(number)[0])
    copy.segments[number] = lines


def _in_seal(change: Callable[[bytes], bytes]) -> Tamper:
    """Change the first seal of the segment."""

    def tamper(copy: Copy, number: int, index: int) -> None:
        at = copy.seals_of(number)[0]
        copy.manifest[at] = change(copy.manifest[at])

    return tamper


def _key_of_a_stranger(copy: Copy, number: int, index: int) -> None:
    """The stranger says it himself that what follows is signed with his key."""
    copy.add_entry(STRANGER, kind="key", public=STRANGER.public.text)


def _key_before_everything(copy: Copy, number: int, index: int) -> None:
    """From then on every line would have to be signed, and none is."""
    said = {"v": 2, "prev": START, "entry": 1, "kind": "key", "time": "2026-11-01T00:00:00.000000Z"}
    copy.manifest.insert(0, entry_line({**said, "server": copy.server, "public": STRANGER.public.text}, STRANGER))


def _torn(copy: Copy, number: int, index: int) -> None:
    """An unfinished line was never told of to anybody."""
    copy.manifest.append(b'{"v":2,"prev":"%s' % line_hash(copy.manifest[-1])[:9].encode())


def _of_another_server(copy: Copy, number: int, index: int) -> None:
    copy.manifest = copy.stranger().manifest


# Places anywhere in the manifest, by the index.


def _junk_anywhere(copy: Copy, number: int, index: int) -> None:
    copy.manifest.insert(index % (len(copy.manifest) + 1), b"junk\n")


def _cut_anywhere(copy: Copy, number: int, index: int) -> None:
    del copy.manifest[index % (len(copy.manifest) + 1) :]


def _one_of_the_first_dropped(copy: Copy, number: int, index: int) -> None:
    del copy.manifest[index % 3 : index % 3 + 1]


KINDS = [
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
"""Those of the matrix."""

OTHERS = [
    Kind("a segment removed, and its removal noted by a stranger", _removal_noted_by_a_stranger),
    Kind("a segment removed, and the removal of another one noted", _removal_of_another_noted),
    Kind("all seals of a segment dropped", _all_seals_dropped),
    Kind("all seals from the one before on cut off", _seals_cut_off_from_the_one_before),
    Kind("the last seal cut off", _last_seal_cut_off),
    Kind("a seal of other lines", _seal_of_other_lines),
    Kind("a signature flipped", _in_seal(lambda line: flipped_in(line, rb'"signature":"[a-f]*(\d)'))),
    Kind("a signature removed", _in_seal(lambda line: line.partition(b',"key":')[0] + b"}\n")),
    Kind("a newer version in the manifest", _in_seal(lambda line: line.replace(b'{"v":2,', b'{"v":3,'))),
    Kind("a key of a stranger", _key_of_a_stranger),
    Kind("a key of a stranger before everything", _key_before_everything),
    Kind("the manifest torn", _torn),
    Kind("the manifest of another server", _of_another_server),
    Kind("junk anywhere in the manifest", _junk_anywhere),
    Kind("the manifest cut anywhere", _cut_anywhere),
    Kind("one of the first entries dropped", _one_of_the_first_dropped),
]
"""Those that only some tests try, each in journals that it fits."""
