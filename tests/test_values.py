"""Names: which are new ones, which a journal may hold, and which belong to the server."""

from unicodedata import category, normalize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bussrv.errors import Refused
from bussrv.values import check_known_name, check_routing_id, check_service_name, is_reserved
from tests.size import sample
from tests.tables import each_row

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
UNSEEN = "\u200b\u2060\ufeff"


def is_fit(character):
    return category(character) not in ("Cc", "Cs", "Zl", "Zp") and character not in BIDI + UNSEEN


def is_taken(check, *arguments):
    try:
        check(*arguments)
    except Refused:
        return False
    return True


@pytest.mark.dear
def test_exactly_these_characters_are_refused_inside_new_names():
    for code in (*range(0x10000), *sample(range(0x10000, 0x110000))):
        name = f"a{chr(code)}b"
        fits = is_fit(chr(code))
        assert is_taken(check_service_name, name) == fits, hex(code)
        assert is_taken(check_routing_id, name, "x") == fits, hex(code)


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=60))
@example("a\u200cb\u200d")
@example(" a")
@example("a\xa0")
def test_new_names_neither_begin_nor_end_with_blanks(name):
    expected = all(map(is_fit, name)) and name == name.strip()
    assert is_taken(check_service_name, name) == expected
    assert is_taken(check_routing_id, name, "x") == expected
    # What could once be the name of a service can be one still, where it is one.
    assert is_taken(check_known_name, name) >= expected


@each_row("name", [" a ", "a\u202eb", "\ufeff", "\u200b"])
def test_names_in_a_journal_of_an_older_version_are_known(name):
    assert check_known_name(name) == name
    assert not is_taken(check_service_name, name)


PLAIN = [
    "bus/",
    "bus/x",
    "Bus/x",
    "bUS/",
    "\uff42\uff55\uff53\uff0fx",
    "bus\u2044x",
    "bus\u2215",
    "bus\u29f8x",
    "bu\u017f/x",
]


@each_row("name", [*PLAIN, "b\u200dus/x", "bu\xads/x", "bus\ufe0f/x"])
def test_names_that_read_as_those_of_the_server_belong_to_it(name):
    assert is_reserved(name)


@each_row("name", ["bus", "busx", "abus/", "bus\\x", " bus/", "bus\u2571x", "\u0432us/x", "b\xfcs/", ""])
def test_others_do_not(name):
    assert not is_reserved(name)


@given(st.text(st.sampled_from("busBUS/\u2044\u2215\u29f8\uff42\uff0f\u017fx"), max_size=8))
def test_they_are_compared_by_compatibility_and_without_case(name):
    folded = normalize("NFKC", name).casefold()
    for slash in "\u2044\u2215\u29f8":
        folded = folded.replace(slash, "/")
    assert is_reserved(name) == folded.startswith("bus/")
