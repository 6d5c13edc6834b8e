"""What a person calls a session, and which words find it."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bussrv.registry.state.naming import OWN_PROTOCOL, called, is_called, is_made_up, named, names_of, natural
from tests.size import sized
from tests.tables import each_row

MADE_UP = "1b2f9c0d3e4a000000000001"
WHOLE: dict[str, Any] = {
    "actor": "ann",
    "claimed": "root",
    "name": "panel 3",
    "routing_id": "hall-tv",
    "provides": ["tv/10", "tv/9"],
    "peer": "[2001:db8::7]:4711",
    "protocol": "spp",
    "session": "5f1c2ab94e07.3",
}
"""A session with everything that it may be called by."""

CASES = [
    (WHOLE, "ann"),
    ({**WHOLE, "actor": None}, "root (claimed)"),
    ({**WHOLE, "actor": None, "claimed": None}, "panel 3 (claimed)"),
    ({**WHOLE, "actor": None, "claimed": None, "name": ""}, "hall-tv (claimed)"),
    ({"routing_id": MADE_UP, "provides": ["tv/10", "tv/9"], "peer": "192.0.2.7:1"}, "provides tv/9 and 1 more"),
    ({"services": [{"service": "tv", "since": "…"}], "peer": "192.0.2.7:1"}, "provides tv"),
    ({"routing_id": MADE_UP, "services": 3, "peer": "192.0.2.7:1", "protocol": "spp"}, "192.0.2.7:1 over spp"),
    ({"routing_id": MADE_UP, "peer": "unix"}, "unix"),
    ({"routing_id": f"mqtt-{MADE_UP[:16]}", "session": "5f1c2ab94e07.3"}, "mqtt-1b2f9c0d…"),
    ({"routing_id": MADE_UP}, "1b2f9c0d…"),
    ({"session": "5f1c2ab94e07.3"}, "5f1c2ab94e07.3"),
    ({"claimed": "x" * 31}, "x" * 29 + "… (claimed)"),
    ({"claimed": "\U0001f514" * 31}, "\U0001f514" * 29 + "… (claimed)"),
    ({"called": "provides tv", "routing_id": MADE_UP}, "provides tv"),
    ({"protocol": "bus", "routing_id": MADE_UP, "peer": "local", "provides": ["bus/clock"]}, "the server"),
    ({}, "a client"),
]
"""Sessions, and what each is called. The dashboard calls them the same."""


@each_row(("who", "wanted"), CASES)
def test_the_most_telling_name_is_shown(who: dict[str, Any], wanted: str) -> None:
    assert called(who) == wanted


@each_row(
    ("word", "is_found"),
    [
        *((each, True) for each in ("ann", "root", "panel 3", "hall-tv", "tv/9", "tv/*", "2001:db8::7", "spp")),
        *((each, True) for each in ("[2001:db8::7]:4711", "5f1c2ab94e07.3", "*tv", "p*3")),
        *((each, False) for each in ("an", "tv", "4711", "ann (claimed)", "", "x*")),
    ],
)
def test_every_name_finds_it(word: str, is_found: bool) -> None:
    assert is_called(WHOLE, word) is is_found


@given(st.fixed_dictionaries({}, optional={each: st.text(max_size=5) for each in WHOLE if each != "provides"}))
@settings(max_examples=sized(100))
def test_no_claim_reads_like_a_user(who: dict[str, str]) -> None:
    """Only a user that was proved has its bare name; and what a session is called by finds it."""
    assume(who.get("protocol") != OWN_PROTOCOL)
    label = called(who)
    claims = {who.get(each) for each in ("claimed", "name", "routing_id")} - {None, ""}
    if not who.get("actor") and label in claims:
        assert label == who.get("peer") or label == who.get("session") or is_made_up(label)
    if who.get("actor"):
        assert is_called(who, label.replace("*", "?")) or "*" in label
    assert (named(who) is None) == (not who.get("actor") and not label.endswith(" (claimed)"))
    assert all(isinstance(each, str) for each in names_of(who))


def test_numbers_in_names_are_compared_as_numbers() -> None:
    names = ["attic-4", "Attic-5", "attic-12", "attic-012", "attic", "b", "attic-4x", "9" * 5000, ""]
    assert sorted(names, key=natural) == [
        *("", "9" * 5000, "attic", "attic-4", "attic-4x", "Attic-5", "attic-012", "attic-12", "b"),
    ]
