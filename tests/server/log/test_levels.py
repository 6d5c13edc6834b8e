"""Levels of the log, one for all parts and others for some."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.errors import BadValue
from bussrv.server.log.levels import NAMES, PARTS, Levels, LogLevelsKind, part_of
from tests.tables import each_row

LEVELS = st.builds(Levels, st.sampled_from(NAMES), st.dictionaries(st.sampled_from(PARTS), st.sampled_from(NAMES)))


@given(LEVELS)
def test_levels_are_what_their_text_says(levels: Levels) -> None:
    assert LogLevelsKind().check(str(levels)) == levels
    for part in set(PARTS) - {"twisted"}:
        assert levels.of(part) == levels.parts.get(part, levels.default)
    assert levels.of("a_plugin") == levels.default


@each_row(
    ("text", "of_twisted"),
    [("debug", "debug"), ("info", "warn"), ("warn", "warn"), ("error", "error"), ("error,twisted=info", "info")],
)
def test_twisted_tells_of_every_port_so_it_is_quiet(text: str, of_twisted: str) -> None:
    assert LogLevelsKind().check(text).of("twisted") == of_twisted


@each_row(
    ("text", "wrong"),
    [
        ("loud", "'loud' is none of debug, info, warn, error"),
        ("info,journal", "'journal' is not of the form PART=LEVEL"),
        ("info,journal=", "'' is none of debug"),
        ("info,disk=debug", "'disk' is none of the parts admin, bus,"),
        ("journal=debug", "'journal=debug' is none of debug"),
        ("", "text"),
    ],
)
def test_what_is_no_level_is_named(text: str, wrong: str) -> None:
    with pytest.raises(BadValue) as raised:
        LogLevelsKind().check(text)
    assert wrong in str(raised.value)


@each_row(
    ("namespace", "part"),
    [
        ("bussrv.journal.upkeep", "journal"),
        ("bussrv.turns.slices", "turns"),
        ("bussrv.net.tls.dialing", "formats"),
        ("twisted.internet.base", "twisted"),
        ("log_legacy", "twisted"),
        ("bussrvish.journal", ""),
        ("acme.format", ""),
    ],
)
def test_the_part_of_a_line(namespace: str, part: str) -> None:
    assert part_of({"log_namespace": namespace}) == part
