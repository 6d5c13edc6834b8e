"""Endpoint descriptions are taken apart as Twisted writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.endpoints import quoteStringArgument

from bussrv.net.transport.endpoint_parts import number, take_apart
from tests.tables import each_row

text = st.text(st.sampled_from("ab:=\\\n é"), max_size=8)
no_value = st.text(st.sampled_from("ab:\\\n é"), max_size=8)  # Twisted quotes no equals sign.


@given(st.lists(no_value, max_size=3), st.dictionaries(no_value, text, max_size=3))
def test_what_was_quoted_comes_back(values: list[str], named: dict[str, str]) -> None:
    quoted = [_quoted(value) for value in values]
    quoted += [f"{_quoted(name)}={_quoted(value)}" for name, value in named.items()]
    assert take_apart(":".join(["ssl", *quoted])) == (["ssl", *values], named)


def _quoted(value: str) -> str:
    quoted: str = quoteStringArgument(value)
    return quoted


def test_a_value_may_have_an_equals_sign() -> None:
    assert take_apart("ssl:1:key=/a=b") == (["ssl", "1"], {"key": "/a=b"})


def test_a_name_is_set_once() -> None:
    with pytest.raises(ValueError, match="'key' is set twice"):
        take_apart("ssl:key=a:key=b")


@each_row("text", ["", "-1", "x", "1.0", "11", "9" * 5000, "\u0661"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="the port is a number from 0 to 10, not "):
        number(text, "the port", 10)


def test_numbers() -> None:
    assert [number(each, "it", 10) for each in ("0", "7", "10")] == [0, 7, 10]
