"""What clients are counted by: one address, however it is written; one /64 network of IPv6; one machine's own."""

from ipaddress import IPv4Address as IPv4
from ipaddress import IPv6Address, ip_network

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.internet.address import IPv6Address as TwistedIPv6

from bussrv.addresses import (
    _key_of,
    address_key,
    authority_host,
    format_address,
    is_exempt,
    is_local,
    parse_host,
    peer_text,
)
from tests.tables import each_row

PORTS = st.integers(0, 0xFFFF)


@given(st.ip_addresses(v=4), PORTS)
def test_an_ipv4_address_is_one_key_however_it_is_written(host: IPv4, port: int) -> None:
    text = str(host)
    mapped = f"::ffff:{text}"
    written = (text, format_address(text, port), mapped, format_address(mapped, port))
    assert {address_key(each) for each in written} == {text}
    assert {parse_host(each) for each in written} == {host}
    forms = (text, mapped, f"::FFFF:{int(host) >> 16:x}:{int(host) & 0xFFFF:04x}", f"0:0:0:0:0:ffff:{text}")
    assert {peer_text(TwistedIPv6("TCP", each, port)) for each in forms} == {format_address(text, port)}


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), PORTS)
def test_an_ipv6_network_of_64_bits_is_one_key(prefix: int, first: int, second: int, port: int) -> None:
    one, other = (IPv6Address(prefix << 64 | rest) for rest in (first, second))
    keys = {address_key(str(one)), address_key(format_address(str(other), port)), address_key(f"[{one}%eth0]:{port}")}
    if all(not each.is_loopback and each.ipv4_mapped is None for each in (one, other)):
        assert len(keys) == 1
        assert ip_network(keys.pop()) == ip_network((prefix << 64, 64))


@each_row(
    ("address", "key", "local"),
    [
        ("127.0.0.1:5", "127.0.0.1", True),
        ("127.9.9.9", "127.9.9.9", True),
        ("[::1]:5", "::1", True),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("192.0.2.1:5", "192.0.2.1", False),
        ("unix", "unix", True),
        ("unix:/tmp/127.0.0.1:5", "unix", True),
        ("unix:192.0.2.1:5", "unix", True),
        ("p1-abc:5", "p1-abc", False),
        ("", "", False),
    ],
)
def test_what_is_on_this_machine(address: str, key: str, local: bool) -> None:
    assert (address_key(address), is_local(address)) == (key, local)
    assert is_exempt(address, ()) == local


def test_trusted_networks_are_exempt() -> None:
    trusted = (ip_network("192.0.2.0/24"), ip_network("2001:db8::/32"))
    exempt = ["192.0.2.9:1", "[::ffff:192.0.2.9]:1", "[2001:db8:5::1]:1", "[2001:db8:5::1%eth0]:1"]
    assert all(is_exempt(each, trusted) for each in exempt)
    assert not any(is_exempt(each, trusted) for each in ("192.0.3.9:1", "[2001:db9::1]:1", "p1-abc"))


@each_row(
    ("address", "text"),
    [
        (IPv4Address("TCP", "192.0.2.1", 5), "192.0.2.1:5"),
        (TwistedIPv6("TCP", "2001:db8:0:0:0:0:0:7", 5), "[2001:db8::7]:5"),
        (UNIXAddress(None), "unix"),
        (UNIXAddress(b"/tmp/\xffx"), "unix:/tmp/\\xffx"),
        ("something", "something"),
    ],
)
def test_addresses_as_text(address: object, text: str) -> None:
    assert peer_text(address) == text


def test_connections_of_one_host_are_remembered_together() -> None:
    """Or each connection would leave something behind, for its port."""
    address_key("192.0.2.77")
    before = _key_of.cache_info().currsize
    assert {address_key(f"192.0.2.77:{port}") for port in range(100)} == {"192.0.2.77"}
    assert _key_of.cache_info().currsize == before


def test_a_host_is_matched_whole() -> None:
    for text, host in {
        "Hall.example:443": "hall.example",
        "hall.example.": "hall.example",
        "[::1]:7280": "::1",
        "[FE80::1%eth0]": "fe80::1%eth0",
        "10.0.0.1": "10.0.0.1",
        "[::1].evil.example": None,
        "[::1": None,
        "[10.0.0.1]": None,
        "[a:b]": None,
        "::1": None,
        "localhost:80:evil": None,
        "localhost:http": None,
        "localhost\n": None,
        "a@localhost": None,
        "": None,
    }.items():
        assert authority_host(text) == host, text
