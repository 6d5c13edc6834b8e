"""The header of a proxy, in both versions, however it is cut."""

from hypothesis import given
from hypothesis import strategies as st

from bussrv.addresses import plain_host
from bussrv.errors import RemoteProtocolError
from bussrv.wire.proxy import MAX_LINE, SIGNATURE, ProxyHeader, ProxySource, read_header
from tests.tables import each_row


def binary(command: int, family: int, stated: bytes) -> bytes:
    return SIGNATURE + bytes([command, family]) + len(stated).to_bytes(2, "big") + stated


IPV4 = bytes([192, 0, 2, 7, 10, 0, 0, 1]) + (5555).to_bytes(2, "big") + (3002).to_bytes(2, "big")
MAPPED = (bytes(10) + b"\xff\xff" + bytes([192, 0, 2, 7])) * 2 + IPV4[8:]
LONGEST = b"PROXY TCP6 " + b" ".join([b":".join([b"ffff"] * 8)] * 2)

HEADERS = [
    (b"PROXY TCP4 192.0.2.7 10.0.0.1 5555 3002\r\n", ProxySource("192.0.2.7", 5555)),
    (b"PROXY TCP6 2001:db8:0::7 ::1 0 65535\r\n", ProxySource("2001:db8::7", 0)),
    (b"PROXY TCP6 ::ffff:192.0.2.7 ::1 5555 3002\r\n", ProxySource("::ffff:192.0.2.7", 5555)),
    (LONGEST + b" 65535 65535\r\n", ProxySource("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 65535)),
    (b"PROXY UNKNOWN\r\n", None),
    (b"PROXY UNKNOWN ffff::1 whatever 1 2\r\n", None),
    (binary(0x21, 0x11, IPV4), ProxySource("192.0.2.7", 5555)),
    (binary(0x21, 0x11, IPV4 + b"\x04\x00\x01x"), ProxySource("192.0.2.7", 5555)),
    (binary(0x21, 0x21, MAPPED), ProxySource("::ffff:192.0.2.7", 5555)),
    (binary(0x21, 0x31, b"/run/a".ljust(108, b"\0") + bytes(108)), ProxySource("/run/a", None)),
    (binary(0x21, 0x00, b""), None),
    (binary(0x20, 0x00, b""), None),
    (binary(0x20, 0x11, IPV4), None),
]


@each_row(("header", "source"), HEADERS)
def test_a_header_is_read_whatever_it_is_cut_into(header: bytes, source: ProxySource | None) -> None:
    for end in range(len(header)):
        assert read_header(header[:end]) is None, end
    for rest in (b"", b"\r\n", b"PROXY UNKNOWN\r\n"):
        found = read_header(header + rest)
        assert found is not None
        assert found.rest == rest
        assert plain(found.source) == plain(source)


def plain(source: ProxySource | None) -> tuple[str, int | None] | None:
    """Text of an IPv6 address differs between versions of Python."""
    return None if source is None else (plain_host(source.host), source.port)


BAD = [
    (b"GET / HTTP/1.0\r\n\r\n", "neither form"),
    (b"\x16\x03", "neither form"),
    (b"PROXY\r\n", "neither form"),
    (b"PROXY  UNKNOWN\r\n", "is not TCP4"),
    (b"PROXY TCP4\r\n", "is not TCP4"),
    (b"PROXY TCP4 192.0.2.7 10.0.0.1 5555\r\n", "is not TCP4"),
    (b"PROXY TCP4 192.0.2.7 10.0.0.1 5555 3002 1\r\n", "is not TCP4"),
    (b"PROXY TCP4 ::1 10.0.0.1 5555 3002\r\n", "an address is not one of TCP4"),
    (b"PROXY TCP4 evil\nname 10.0.0.1 5555 3002\r\n", "an address is not one of TCP4"),
    (b"PROXY TCP4 192.0.2.7 10.0.0.\xff 5555 3002\r\n", "an address is not one of TCP4"),
    (b"PROXY TCP6 192.0.2.7 ::1 5555 3002\r\n", "an address is not one of TCP6"),
    (b"PROXY TCP6 fe80::1%\x1b[31m ::1 5555 3002\r\n", "an address has a scope"),
    (b"PROXY TCP4 192.0.2.7 10.0.0.1 65536 3002\r\n", "a port is not"),
    (b"PROXY TCP4 192.0.2.7 10.0.0.1 +5 3002\r\n", "a port is not"),
    (b"PROXY UNKNOWN " + b"x" * MAX_LINE, "longer than 107"),
    (binary(0x11, 0x11, IPV4), "its version is not 2"),
    (binary(0x22, 0x11, IPV4), "its command is neither"),
    (binary(0x21, 0x11, IPV4[:-1]), "cut short"),
    (binary(0x21, 0x21, IPV4), "cut short"),
    (binary(0x21, 0x31, IPV4), "cut short"),
    (binary(0x21, 0x11, bytes(4097))[:16], "longer than 4112"),
]


def fault(data: bytes) -> str:
    try:
        read_header(data)
    except RemoteProtocolError as error:
        return f"{error.reason}: {error.message}"
    return ""


@each_row(("data", "why"), BAD)
def test_a_wrong_header_is_refused_and_the_fault_is_named(data: bytes, why: str) -> None:
    assert why in fault(data)
    assert fault(data).startswith("bad-proxy-header: the header of the proxy cannot be read: ")


@given(st.binary(max_size=200) | st.builds(bytes.__add__, st.just(b"PROXY "), st.binary(max_size=150)))
def test_nothing_but_a_refusal_comes_of_other_bytes(data: bytes) -> None:
    if not fault(data):
        assert isinstance(read_header(data), ProxyHeader | None)
