"""What may be sent to the SPP port, and what is to come of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import pack

from bussrv.testing.conformance.lab import ANN
from bussrv.wire import spp

SERVICE = "kitchen"
"""What a bystander provides and another one watches."""

STATE = b"clean"
USER, SECRET = ANN.user, ANN.secret
MOST = 0xFFFFFFFF
MAX_PACKET = 1 << 20


# What is to come of an input.


@dataclass(frozen=True)
class Closed:
    """The connection is closed, and the journal says why.

    :ivar sent: what the client was sent before that.
    """

    reason: str
    sent: bytes = b""


@dataclass(frozen=True)
class Ignored:
    """Nothing comes of it but that it is counted; the connection lives on."""

    times: int = 1


@dataclass(frozen=True)
class NotOffered:
    """A subscription that is refused: nothing is sent; the journal says so, at a limited rate."""

    times: int = 1
    reason: str = "no-such-service"


@dataclass(frozen=True)
class Sent:
    """It is unusual, yet nothing is wrong with it: exactly this is sent."""

    data: bytes = b""


@dataclass(frozen=True)
class Unfinished:
    """Nothing at all happens: more is to come. What was sent so far is all that is kept, or less."""


Outcome = Closed | Ignored | NotOffered | Sent | Unfinished


@dataclass(frozen=True)
class Row:
    """One hostile input.

    :ivar data: the bytes; large ones are built when they are needed.
    :ivar guarded: whether the server asks who watches.
    """

    name: str
    data: bytes | Callable[[], bytes]
    outcome: Outcome
    guarded: bool = False

    def build(self) -> bytes:
        return self.data if isinstance(self.data, bytes) else self.data()


def packet(msgtype: int, data: bytes = b"", length: int | None = None) -> bytes:
    """A packet, with the right length unless another one is given."""
    return pack(">II", msgtype, len(data) if length is None else length) + data


def string(data: bytes, length: int | None = None) -> bytes:
    """A STRING, with the right length unless another one is given."""
    return pack(">I", len(data) if length is None else length) + data


SNAPSHOT = spp.info(SERVICE, STATE)
KITCHEN = SERVICE.encode()
OVERRUN, SHORT, LARGE, UTF8 = (
    Closed(reason) for reason in ("string-overruns-packet", "packet-too-short", "packet-too-large", "bad-utf8")
)


def _both(name: str, data: Callable[[int], bytes], outcome: Outcome) -> tuple[Row, Row]:
    """The same with types 1 and 2."""
    return (
        Row(f"subscribing: {name}", data(1), outcome),
        Row(f"unsubscribing: {name}", data(2), outcome),
    )


LENGTHS = (
    *_both("no data", lambda msgtype: packet(msgtype), SHORT),
    *_both("one byte", lambda msgtype: packet(msgtype, b"\0"), SHORT),
    *_both("three bytes", lambda msgtype: packet(msgtype, b"\0\0\0"), SHORT),
    *_both("a STRING that is one byte too long", lambda msgtype: packet(msgtype, string(b"tv", 3)), OVERRUN),
    *_both("a STRING without its bytes", lambda msgtype: packet(msgtype, string(b"", 1)), OVERRUN),
    *_both("a STRING of 4 GiB", lambda msgtype: packet(msgtype, string(b"tv", MOST)), OVERRUN),
    *_both("a STRING of a negative length", lambda msgtype: packet(msgtype, string(b"tv", 1 << 31)), OVERRUN),
    *_both("a STRING whose length wraps round", lambda msgtype: packet(msgtype, string(b"tv", MOST - 3)), OVERRUN),
    *_both("a STRING in the other byte order", lambda msgtype: packet(msgtype, b"\2\0\0\0tv"), OVERRUN),
    *_both("a packet in the other byte order", lambda msgtype: pack("<II", msgtype, 6) + string(b"tv"), LARGE),
    *_both("a packet of 4 GiB", lambda msgtype: packet(msgtype, b"", MOST), LARGE),
    *_both("a packet of 2 GiB", lambda msgtype: packet(msgtype, b"", 1 << 31), LARGE),
    *_both("a byte more than may be", lambda msgtype: packet(msgtype, b"", MAX_PACKET + 1), LARGE),
    Row("the test value, a byte too large", packet(0, b"", MAX_PACKET + 1), LARGE),
    Row("a reserved type, a byte too large", packet(3, b"", MAX_PACKET + 1), LARGE),
    Row("another message of 4 GiB", packet(32, b"", MOST), LARGE),
    Row("the greatest type and length", packet(MOST, b"", MOST), LARGE),
    Row("nothing but ones", b"\xff" * 64, LARGE),
    Row("half a header", packet(1)[:4], Unfinished()),
    Row("all of a header but a byte", packet(1)[:7], Unfinished()),
    Row("a header alone", packet(1, b"", 6), Unfinished()),
    Row("a header of as much as may be", packet(1, b"", MAX_PACKET), Unfinished()),
    Row("all of a packet but a byte", packet(1, string(b"kitchen"))[:-1], Unfinished()),
    Row("as much as may be, but a byte", lambda: packet(1, bytes(MAX_PACKET - 1), MAX_PACKET), Unfinished()),
    Row("a length that is one too small", packet(1, string(KITCHEN), 10) + spp.subscribe(SERVICE), OVERRUN),
    Row("a length that is one too large", packet(1, string(b"tv"), 7) + packet(0, b"abc"), NotOffered()),
)

NAMES = (
    *_both("no UTF-8", lambda msgtype: packet(msgtype, string(b"\xff\xfe")), UTF8),
    *_both("half a character", lambda msgtype: packet(msgtype, string("ü".encode()[:1])), UTF8),
    *_both("half of a surrogate pair", lambda msgtype: packet(msgtype, string(b"\xed\xa0\x80")), UTF8),
    *_both("NUL, too long", lambda msgtype: packet(msgtype, string(b"\xc0\x80")), UTF8),
    *_both("beyond Unicode", lambda msgtype: packet(msgtype, string(b"\xf4\x90\x80\x80")), UTF8),
    *_both("Latin-1", lambda msgtype: packet(msgtype, string(b"K\xfcche")), UTF8),
    Row("an empty name", packet(1, string(b"")), NotOffered()),
    Row("a NUL", packet(1, string(b"\0")), NotOffered()),
    Row("a name with a NUL behind it", packet(1, string(KITCHEN + b"\0")), NotOffered()),
    Row("a name in capitals", packet(1, string(KITCHEN.upper())), NotOffered()),
    Row("a name with a byte order mark", packet(1, string(b"\xef\xbb\xbf" + KITCHEN)), NotOffered()),
    Row("line ends", packet(1, string(b"a\r\nb")), NotOffered()),
    Row("terminal controls", packet(1, string(b"\x1b[2J\x1b]0;x\x07")), NotOffered()),
    Row("text that runs backwards", packet(1, string("\u202enehctik".encode())), NotOffered()),
    Row("a wildcard", packet(1, string(b"*")), NotOffered()),
    Row("a path", packet(1, string(b"../../etc/passwd")), NotOffered()),
    Row("a format", packet(1, string(b"{service!r} %s {0.__class__}")), NotOffered()),
    Row("a JSON object", packet(1, string(b'{"event":"session.closed"}\n')), NotOffered()),
    Row("a service of the server that there is not", packet(1, string(b"bus/none")), NotOffered()),
    Row("a byte more than a name has", packet(1, string(b"a" * 256)), NotOffered()),
    Row("a name of a mebibyte", lambda: packet(1, string(b"a" * (MAX_PACKET - 4))), NotOffered()),
    Row("a name of a mebibyte of controls", lambda: packet(1, string(bytes(MAX_PACKET - 4))), NotOffered()),
    Row("unsubscribing from nothing", packet(2, string(b"")), Sent()),
    Row("unsubscribing from a service of others", spp.unsubscribe(SERVICE), Sent()),
    Row("unsubscribing from a mebibyte", lambda: packet(2, string(b"a" * (MAX_PACKET - 4))), Sent()),
)

TYPES = (
    Row("the test value", packet(0, b"test"), Ignored()),
    Row("the test value, empty", packet(0), Ignored()),
    Row("the test value, as much as may be", lambda: packet(0, bytes(MAX_PACKET)), Ignored()),
    Row("a test value that holds a packet", packet(0, spp.subscribe(SERVICE)), Ignored()),
    Row("every reserved type", b"".join(packet(each, string(KITCHEN)) for each in range(3, 32)), Ignored(29)),
    Row("an info packet", spp.info(SERVICE, b"forged"), Ignored()),
    Row("an info packet that is malformed", packet(16, b"\xff"), Ignored()),
    Row("other messages", spp.other(32, b"x") + spp.other(33, b"") + spp.other(MOST, b"\0"), Ignored(3)),
    Row("an answer to an authentication", spp.auth_result(0), Ignored()),
    Row("an authentication that nobody asked for", spp.authenticate("root", "toor"), Ignored()),
    Row("another message, as much as may be", lambda: spp.other(99, bytes(MAX_PACKET)), Ignored()),
    Row("nothing but zeros", bytes(800), Ignored(100)),
)

# Other protocols: the first four bytes are a type, the next four a length.
STRANGERS = (
    Row("HTTP", b"GET / HTTP/1.1\r\nHost: bus\r\n\r\n", LARGE),
    # To the reader this is the beginning of another message of 65537 bytes.
    Row("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32), Unfinished()),
    Row("SSH", b"SSH-2.0-OpenSSH_9.6\r\n", LARGE),
    Row("an object", b'{"event":"routing/subscribe"}\0', LARGE),
    Row("Inbus", b'{"version":2,"opcode":1}', LARGE),
    Row("a line of text", b"hello, world\r\n", LARGE),
)

FLOODS = (
    Row("subscribing", spp.subscribe(SERVICE), Sent(SNAPSHOT)),
    Row("subscribing, with bytes behind it", packet(1, string(KITCHEN) + b"\xff" * 9), Sent(SNAPSHOT)),
    Row("subscribing a hundred times", spp.subscribe(SERVICE) * 100, Sent(SNAPSHOT * 100)),
    Row("to and fro", (spp.subscribe(SERVICE) + spp.unsubscribe(SERVICE)) * 100, Sent(SNAPSHOT * 100)),
    Row("unsubscribing a thousand times", spp.unsubscribe("never") * 1000, Sent()),
    Row("two hundred services that there are not", spp.subscribe("never") * 200, NotOffered(200)),
    Row("a thousand test values", packet(0, b"x") * 1000, Ignored(1000)),
    Row(
        "subscribing, then what is malformed, then subscribing",
        spp.subscribe(SERVICE) + packet(1) + spp.subscribe(SERVICE),
        Closed("packet-too-short", SNAPSHOT),
    ),
)

REFUSED = spp.auth_result(1)
ACCEPTED = spp.auth_result(0)
OFFER = spp.offer(SERVICE)
WRONG = spp.authenticate(USER, "guess")


def _credentials(data: bytes) -> bytes:
    return packet(32, data)


GUARDED = (
    Row("no user", _credentials(b""), SHORT, True),
    Row("a user without a secret", _credentials(string(b"ann")), SHORT, True),
    Row("a user that overruns the packet", _credentials(string(b"ann", 4)), OVERRUN, True),
    Row("a secret that overruns the packet", _credentials(string(b"ann") + string(b"x", MOST)), OVERRUN, True),
    Row("a user that is not UTF-8", _credentials(string(b"\xff") + string(b"x")), UTF8, True),
    Row("a secret that is not UTF-8", _credentials(string(b"ann") + string(b"\xff")), UTF8, True),
    Row("nobody without a secret", spp.authenticate("", ""), Sent(REFUSED), True),
    Row("a user with a colon", spp.authenticate("ann:scrypt$2$1$1$", ""), Sent(REFUSED), True),
    Row("a user with a NUL", spp.authenticate("ann\0", SECRET), Sent(REFUSED), True),
    Row("a secret with a NUL", spp.authenticate(USER, SECRET + "\0"), Sent(REFUSED), True),
    Row("a user of half a mebibyte", lambda: spp.authenticate("a" * (1 << 19), "x"), LARGE, True),
    Row("a secret of half a mebibyte", lambda: spp.authenticate(USER, "x" * (1 << 19)), LARGE, True),
    Row("a user of three kibibytes", lambda: spp.authenticate("a" * 3000, "x"), Sent(REFUSED), True),
    Row("a secret of three kibibytes", lambda: spp.authenticate(USER, "x" * 3000), Sent(REFUSED), True),
    Row("two guesses", WRONG * 2, Sent(REFUSED * 2), True),
    Row("three guesses", WRONG * 3, Closed("authentication-failed", REFUSED * 3), True),
    Row("a thousand guesses", WRONG * 1000, Closed("authentication-failed", REFUSED * 3), True),
    Row(
        "the secret behind three guesses",
        WRONG * 3 + spp.authenticate(USER, SECRET),
        Closed("authentication-failed", REFUSED * 3),
        True,
    ),
    Row("an answer to itself", spp.auth_result(0), Ignored(), True),
    Row("other messages before it is accepted", spp.other(34, b"") + packet(0), Ignored(2), True),
    Row("subscribing before it is accepted", spp.subscribe(SERVICE), NotOffered(1, "not-authenticated"), True),
    Row("subscribing often before it", spp.subscribe(SERVICE) * 200, NotOffered(200, "not-authenticated"), True),
    Row("asking for what there is not", spp.subscribe("never"), NotOffered(1, "not-authenticated"), True),
    Row("unsubscribing before it is accepted", spp.unsubscribe(SERVICE), Sent(), True),
    Row("what is malformed before it is accepted", packet(1, string(b"\xff")), UTF8, True),
    Row("a packet of 4 GiB before it is accepted", packet(32, b"", MOST), LARGE, True),
    Row(
        "guesses behind the secret",
        spp.authenticate(USER, SECRET) + WRONG * 9 + spp.subscribe(SERVICE),
        Sent(ACCEPTED + OFFER + SNAPSHOT),
        True,
    ),
    Row(
        "what is malformed behind the secret",
        spp.authenticate(USER, SECRET) + packet(32, b"") + packet(1),
        Closed("packet-too-short", ACCEPTED + OFFER),
        True,
    ),
)

ROWS: tuple[Row, ...] = (*LENGTHS, *NAMES, *TYPES, *STRANGERS, *FLOODS, *GUARDED)
