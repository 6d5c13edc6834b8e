"""Records of the journal that the admin interface sends, for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bussrv.terminal import word

FIRST = ("actor", "claimed", "peer", "session", "routing_id", "service", "reason")
"""Fields that come first, in this order."""

LEFT_OUT = frozenset(
    {"v", "prev", "seq", "time", "mono", "server", "boot", "event", "outcome", "protocol", "interest", "options"}
)


def in_words(record: Mapping[str, Any], *, is_short: bool = False) -> str:
    """One line about a record: its time, number, event and fields. ``bussrv journal tail`` writes the same line; this
    function also knows events of later versions.

    :param is_short: whether only the time of day is said.
    """
    return " ".join(_words(record, is_short=is_short))


def _words(record: Mapping[str, Any], *, is_short: bool) -> Iterator[str]:
    moment = word(record.get("time", "-"))
    yield moment[11:19] if is_short and len(moment) > 19 else moment
    yield word(record.get("seq", "-"))
    yield word(record.get("event", "-"))
    if record.get("outcome", "ok") != "ok":
        yield word(record["outcome"])
    for name in (*FIRST, *(each for each in record if each not in FIRST and each not in LEFT_OUT)):
        value = record.get(name)
        if value not in (None, [], {}):
            yield f"{word(name)}={word(_text(name, value))}"


def _text(name: str, value: object) -> object:
    if name == "until" and isinstance(value, int):
        from bussrv.journal.record import format_time

        return format_time(value)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    return json.dumps(value) if isinstance(value, (dict, list)) else value
