"""The addresses that clients connect to."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.client.address import SCHEMES, Address
from tests.tables import each_row


@each_row(
    ("url", "address", "shown"),
    [
        ("bus://hall", Address("objects", "hall", 7890), "hall:7890"),
        ("buss://hall.example:1", Address("objects", "hall.example", 1, tls=True), "hall.example:1"),
        ("business://hall/", Address("business", "hall", 7891), "hall:7891"),
        ("spp://10.0.0.1", Address("spp", "10.0.0.1", 3002), "10.0.0.1:3002"),
        ("spps://hall", Address("spp", "hall", 3002, tls=True), "hall:3002"),
        ("inbus://[::1]", Address("inbus", "::1", 7222), "[::1]:7222"),
        ("ws://hall", Address("websocket", "hall", 80), "hall:80"),
        ("ws://hall/bus?a=b", Address("websocket", "hall", 80, path="/bus?a=b"), "hall:80"),
        ("wss://[2001:db8::1]:65535?a", Address("websocket", "2001:db8::1", 65535, True, "/?a"), "[2001:db8::1]:65535"),
    ],
)
def test_an_address_is_read_from_a_url(url: str, address: Address, shown: str) -> None:
    assert Address.parse(url) == address
    assert str(address) == shown


@each_row(
    ("url", "said"),
    [
        ("hall:7890", "begins with none of bus://"),
        ("http://hall", "begins with none of bus://"),
        ("", "begins with none of bus://"),
        ("bus://", "names no host"),
        ("bus://:7890", "names no host"),
        ("bus://hall:0x", "from 1 to 65535"),
        ("bus://hall:65536", "from 1 to 65535"),
        ("bus://hall:0", "from 1 to 65535"),
        ("bus://hall/tv", "after the host"),
        ("spp://hall?a", "after the host"),
        ("ws://hall/#a", "after the host"),
        ("bus://ann:sesame@hall", "say user= and secret="),
        ("bus://ann@hall", "say user= and secret="),
        ("bus://[::1", "Invalid IPv6 URL"),
    ],
)
def test_the_fault_of_another_text_is_one_sentence(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        Address.parse(url)
    assert "sesame" not in str(caught.value)


@given(st.text(st.sampled_from("abus:/@?#[]%.0 \n"), max_size=12), st.sampled_from(["", *SCHEMES]))
def test_nothing_but_a_value_error_comes_of_any_text(text: str, scheme: str) -> None:
    try:
        address = Address.parse(f"{scheme}://{text}" if scheme else text)
    except ValueError:
        return
    assert address.host
    assert 1 <= address.port <= 65535
