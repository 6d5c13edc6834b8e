r"""The header with which a proxy says whose connection it is. Source: the PROXY protocol, versions 1 and 2.

Version 1 is a line of at most 107 bytes::

    PROXY TCP4|TCP6 SP source SP destination SP source-port SP destination-port \r\n
    PROXY UNKNOWN [anything] \r\n

Version 2 is binary, numbers big-endian::

    0   12 bytes  \r\n\r\n\0\r\nQUIT\n
    12  1         version 2 in the upper half; in the lower one 0: the proxy speaks for itself, or 1: for a client
    13  1         upper half: family 0 none, 1 IPv4, 2 IPv6, 3 UNIX; lower half: the transport, of no interest here
    14  2         how many bytes follow
    16  ...       source, destination, source port, destination port; then further fields

It may come in any number of pieces. Without an address, the connection is the proxy's own.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address

from msgspec import Struct

from bussrv.errors import RemoteProtocolError

LINE = b"PROXY "
END = b"\r\n"
MAX_LINE = 107
"""The longest header of version 1, in bytes, with its end."""

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
FIXED = 16
MAX_BINARY = FIXED + 4096
"""The longest header of version 2. Proxies send some hundred bytes of further fields at most."""

_PORT = re.compile(rb"0|[1-9][0-9]{0,4}")
_FAMILIES = {0x10: (IPv4Address, 4), 0x20: (IPv6Address, 16)}
_UNIX, _UNIX_PATH = 0x30, 108


class ProxySource(Struct, frozen=True):
    """The address of a client.

    :ivar host: an IP address, or the path of a UNIX socket, which may be empty.
    :ivar port: ``None``: it is a UNIX socket.
    """

    host: str
    port: int | None


class ProxyHeader(Struct, frozen=True):
    """A header.

    :ivar source: ``None``: the proxy does not say.
    :ivar rest: the bytes that came after it.
    """

    source: ProxySource | None
    rest: bytes


def read_header(data: bytes) -> ProxyHeader | None:
    """Read the header at the beginning of all that a proxy sent so far; ``None``: more is needed.

    :raises RemoteProtocolError: ``bad-proxy-header``.
    """
    if data[: len(LINE)] == LINE[: len(data)]:
        return _read_line(data)
    if data[: len(SIGNATURE)] == SIGNATURE[: len(data)]:
        return _read_binary(data)
    raise _bad("it begins with neither form of the PROXY protocol")


def _read_line(data: bytes) -> ProxyHeader | None:
    end = data.find(END, 0, MAX_LINE)
    if end < 0:
        if len(data) >= MAX_LINE:
            raise _bad(f"its line is longer than {MAX_LINE} bytes")
        return None
    _, kind, *stated = data[:end].split(b" ")
    rest = data[end + len(END) :]
    if kind == b"UNKNOWN":
        return ProxyHeader(None, rest)
    if kind not in (b"TCP4", b"TCP6") or len(stated) != 4:
        raise _bad("its line is not TCP4 or TCP6, two addresses and two ports")
    ip = IPv4Address if kind == b"TCP4" else IPv6Address
    source, destination, *ports = stated
    if any(not _PORT.fullmatch(port) or int(port) > 0xFFFF for port in ports):
        raise _bad("a port is not a number from 0 to 65535")
    try:
        host, _ = (ip(each.decode("ascii")) for each in (source, destination))
    except ValueError:
        raise _bad(f"an address is not one of {kind.decode()}") from None
    if b"%" in source + destination:
        raise _bad("an address has a scope")
    return ProxyHeader(ProxySource(str(host), int(ports[0])), rest)


def _read_binary(data: bytes) -> ProxyHeader | None:
    if len(data) < FIXED:
        return None
    size = FIXED + int.from_bytes(data[14:FIXED], "big")
    version, command, family = data[12] >> 4, data[12] & 0x0F, data[13] & 0xF0
    if version != 2 or command > 1:
        raise _bad("its version is not 2, or its command is neither LOCAL nor PROXY")
    if size > MAX_BINARY:
        raise _bad(f"it is longer than {MAX_BINARY} bytes")
    if len(data) < size:
        return None
    return ProxyHeader(_source(family, data[FIXED:size]) if command else None, data[size:])


def _source(family: int, stated: bytes) -> ProxySource | None:
    if family == _UNIX:
        if len(stated) < 2 * _UNIX_PATH:
            raise _bad("its addresses are cut short")
        path = stated[:_UNIX_PATH].partition(b"\0")[0]
        return ProxySource(path.decode("utf-8", "backslashreplace"), None)
    if family not in _FAMILIES:
        return None
    ip, size = _FAMILIES[family]
    if len(stated) < 2 * size + 4:
        raise _bad("its addresses are cut short")
    return ProxySource(str(ip(stated[:size])), int.from_bytes(stated[2 * size : 2 * size + 2], "big"))


def _bad(why: str) -> RemoteProtocolError:
    return RemoteProtocolError("bad-proxy-header", f"the header of the proxy cannot be read: {why}")
