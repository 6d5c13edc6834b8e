"""What is fuzzed: parsers of what strangers send, and of files; and a whole server, :mod:`tests.fuzz.whole`. Each
target takes any bytes; an exception is a fault.

A target also holds a fast path against a slow one, or chunks against the whole, so that a wrong answer is a fault, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct

from bussrv import toml_lines
from bussrv.compiled import SPEEDUPS
from bussrv.errors import ConfigError, Refused, RemoteProtocolError
from bussrv.formats.objects.members import SECRETS, ObjectCredentials
from bussrv.journal.evidence.lines import LineJudge
from bussrv.journal.evidence.manifest import EntryJudge
from bussrv.policy.logins.tokens import format_expiry, parse_token, token_line
from bussrv.policy.logins.users import parse_user, user_line
from bussrv.policy.permissions.file import parse_policy
from bussrv.policy.permissions.rules import ACTIONS
from bussrv.wire import inbus as inbus_wire
from bussrv.wire import spp as spp_wire
from bussrv.wire.frames import Upgrade
from bussrv.wire.mqtt import reader as mqtt_wire
from bussrv.wire.mqtt.over_websocket import FramedMqttReader
from bussrv.wire.mqtt.packets import Publish
from bussrv.wire.mqtt.writer import encode as encode_mqtt
from bussrv.wire.objects import BusObject, Head, ObjectReader
from bussrv.wire.websocket import WebSocketReader
from tests.equality import compiled, plain
from tests.fuzz.draw import Draw
from tests.fuzz.whole import server
from tests.wire.test_websocket import CLOSE, CONTINUED, PING, PONG, REQUEST, TEXT, frame

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests/vectors"
JOURNAL = ROOT / "docs/reference/journal-format/whole"

UPGRADE = REQUEST

SOCKETS = (
    REQUEST + frame(b"{}\0"),
    REQUEST.replace(b"Host", b"Origin: http://a\r\nSec-WebSocket-Protocol: objects\r\nHost"),
    REQUEST.replace(b"GET", b"PUT"),
    frame(b'{"type":"a/b","size":2}\0ab') + frame(b'{"event":"ping"}', TEXT),
    frame(b'{"x":', final=False) + frame(b"p", PING) + frame(b"1}", CONTINUED) + frame(b"", PONG),
    frame(b'{"size":300}\0' + bytes(300)) + frame(b"\x03\xe8bye", CLOSE),
    frame(b'{"size":3}\0') + frame(b"{}\0{}\0"),
    frame('{"é":"ü"}'.encode(), TEXT, final=False) + frame(b"\xff", CONTINUED),
    frame(b"x" * 3000),
    frame(b""),
    *(frame(bytes.fromhex(each)) for each in ("100d00044d5154540502003c0000", "100c00044d5154540402003c0000")),
    frame(bytes.fromhex("100c00044d5154540402003c0000c0"), final=False) + frame(b"p", PING) + frame(b"\0", CONTINUED),
    frame(bytes.fromhex("100c00044d5154540402003c0000c000")) + frame(b"\xc0\0", TEXT),
    b"\x82\xff" + bytes([127] * 8) + b"mask",
)

POLICIES = (
    '[groups]\nstaff = ["ann"]\n[[rule]]\ngroups = "staff"\nwatch = [\n  "!tv/b", # no\n  "tv/*",\n]\n',
    '[[rule]]\nusers = ["*"]\nnetworks = ["10.0.0.0/8", "unix"]\nformats = ["spp"]\nprovide = "a?*"\n',
    '[[rule]]\nsend = ["text/*", "@go"]\nobserve = ["!@*", "*"]\nadmin = "read"\n',
    '[[rule]]\nwatch = ["bus/*", "**"]\naddress = \'*\'\n[[rule]]\nadmin = "none"\n',
    'rule = [{ watch = ["tv/*"], users = "ann" }, { link = "a" }]\n',
    '[[rule]]\nwatch = ["tv/*", "!tv/b"]\nsend = "text/plain;a"\nusers = []\ngroups = "x"\n',
    "groups = 1\nrule = 2\nother = 3\n",
    '[groups.a]\nb = 1\n[[rule]]\nwach = "a"\nformats = "http"\nnetworks = "10.0.0.1/8"\n',
    '[[rule]]\ntell = ["""\na\n[[rule]]""", \'\'\'b\'\'\', "\\u0007", 1]\nadmin = 1\n',
    '"a b".c = 1\n[ x . "y" ]\n[[x.z]]\nk = { a = [1, "b"] }\n',
)

CLIENT: mqtt_wire.Side = "client"
SERVER: mqtt_wire.Side = "server"

Target = Callable[[bytes], None]


def chunks(data: bytes) -> tuple[list[bytes], bytes]:
    """What the first byte says: the rest in chunks of so many bytes, and the rest."""
    size, rest = (data[0] or 1, data[1:]) if data else (1, b"")
    return [rest[begin : begin + size] for begin in range(0, len(rest), size)], rest


def read(reader: Any, pieces: list[bytes]) -> list[object]:
    """The events of a stream, and the reason why it ended early, if it did."""
    events: list[object] = []
    for piece in pieces:
        reader.feed(piece)
        try:
            while (event := reader.next_event()) is not None:
                events.append(event)
        except RemoteProtocolError as error:
            return [*events, (error.reason, error.message)]
    return events


class _OneByOne(ObjectReader):
    """Reads no object ahead."""

    def batch(self) -> Iterator[BusObject]:
        return iter(())


def objects(data: bytes) -> None:
    """Objects, in chunks, as a whole and one by one."""
    pieces, rest = chunks(data)
    limits = {"max_metadata": 2000, "max_payload": 500, "max_nesting": 8}
    whole = read(ObjectReader(**limits), [rest])
    assert read(ObjectReader(**limits), pieces) == whole
    assert read(_OneByOne(**limits), [rest]) == whole
    for event in whole:
        if isinstance(event, BusObject):
            assert isinstance(event.fields(), dict)
            credentials(event)


def credentials(obj: BusObject) -> None:
    """An object that joins gives its secrets, and keeps everything else."""
    fields = obj.fields()
    offered = ObjectCredentials(BusObject(obj.metadata, Head(event="Routing/subscribe"), obj.payload))
    with suppress(Refused):
        offered.credentials()
    assert offered.obj.fields() == {key: value for key, value in fields.items() if key not in SECRETS}


def spp(data: bytes) -> None:
    """Packets of SPP, in chunks and as a whole, of clients and of servers."""
    pieces, rest = chunks(data)
    for side in ("client", "server"):
        whole = read(spp_wire.SppReader(side, 1000), [rest])
        assert read(spp_wire.SppReader(side, 1000), pieces) == whole
    with suppress(RemoteProtocolError):
        spp_wire.credentials(rest)
    with suppress(RemoteProtocolError):
        spp_wire.auth_code(rest)


class _PlainMqtt(mqtt_wire.MqttReader):
    """Reads no packet ahead."""

    def _read_ahead(self, version: int) -> list[Publish]:
        return []


def mqtt(data: bytes) -> None:
    """Packets of MQTT of both sides and versions, in chunks, as a whole and one by one; what is read can be written."""
    pieces, rest = chunks(data)
    for side, version in ((CLIENT, None), (CLIENT, 4), (CLIENT, 5), (SERVER, 4), (SERVER, 5)):
        whole = read(mqtt_wire.MqttReader(side, version, 1000), [rest])
        assert read(mqtt_wire.MqttReader(side, version, 1000), pieces) == whole
        assert read(_PlainMqtt(side, version, 1000), [rest]) == whole
        packets: list[Any] = [each for each in whole if isinstance(each, Struct)]
        spoken = version or (packets[0].version if packets else 5)
        again = b"".join(encode_mqtt(each, spoken) for each in packets)
        assert read(mqtt_wire.MqttReader(side, version), [again]) == packets


def websocket(data: bytes) -> None:
    """A request, or after it frames of objects or of packets, in chunks and as a whole."""
    pieces, rest = chunks(data)
    limits = {"max_metadata": 2000, "max_payload": 500, "max_nesting": 8}
    is_open = not rest.startswith(b"GET")
    whole = _read_socket(WebSocketReader(**limits), [rest], is_open)
    # Which fault of two in one message is found first depends on the chunks.
    found = _read_socket(WebSocketReader(**limits), pieces, is_open)
    assert [event for event in found if not isinstance(event, str)] == [
        event for event in whole if not isinstance(event, str)
    ]
    assert isinstance(found[-1] if found else None, str) == isinstance(whole[-1] if whole else None, str)
    packets, at_once = (
        _read_socket(FramedMqttReader(mqtt_wire.MqttReader(CLIENT, max_packet=1000)), each, is_open)
        for each in (pieces, [rest])
    )
    assert packets == at_once


def _read_socket(reader: WebSocketReader | FramedMqttReader, pieces: list[bytes], is_open: bool) -> list[object]:
    events: list[object] = []
    for piece in [*([UPGRADE] if is_open else []), *pieces]:
        reader.feed(piece)
        try:
            while (event := reader.next_event() or reader.take_control()) is not None or reader.has_more:
                if isinstance(event, Upgrade):
                    reader.frames.accept()
                if event is not None:
                    events.append(event)
        except RemoteProtocolError as error:
            return [*events, error.reason]
        assert len(reader) <= 4000, "more is kept than the largest object"
    return events


def inbus(data: bytes) -> None:
    """Datagrams of Inbus: the fast reader takes nothing that the exact one reads otherwise."""
    fast = inbus_wire._decode_fast(data)
    try:
        exact = inbus_wire._decode_exactly(data)
    except RemoteProtocolError:
        assert fast is None
        return
    assert fast in (None, exact)
    assert inbus_wire.decode(inbus_wire.encode(exact)) == exact


def users(data: bytes) -> None:
    """Lines of the file of users."""
    try:
        user, parsed = parse_user(data.decode(errors="replace"))
    except ValueError:
        return
    assert parse_user(f"{user}:{parsed}") == (user, parsed)


def tokens(data: bytes) -> None:
    """Lines of the file of tokens."""
    try:
        hashed, use = parse_token(data.decode(errors="replace"))
    except ValueError:
        return
    expiry = "" if use.expires is None else f"${format_expiry(use.expires)}"
    assert parse_token(f"{use.user}:sha256${hashed.hex()}{expiry}") == (hashed, use)


def policy(data: bytes) -> None:
    """Policy files: every key has its line, every fault has one, and a decision names one."""
    text = data.decode(errors="replace")
    try:
        values, lines = toml_lines.read(text)
    except ValueError:
        return
    most = text.count("\n") + 1
    assert all(1 <= lines[name,] <= most for name in values)
    try:
        rules = parse_policy(text, Path("policy.toml"), ("objects", "spp"))
    except ConfigError as error:
        for sentence in error.sentences:
            line = sentence.removeprefix("policy.toml:").partition(":")[0]
            assert sentence.startswith("policy.toml: and ") or 1 <= int(line) <= most
        return
    for user in ("ann", "anonymous"):
        permissions = rules.permissions(user, "10.0.0.1:80", "spp")
        for action in ACTIONS:
            for target in ("read", "tv/a", "bus/clock", "@go", "text/plain", ""):
                decision = permissions.decide(action, target)
                assert permissions.may(action, target) == permissions.may(action, target) == decision.allowed
                assert not decision.allowed or 1 <= int(decision.rule.split(":")[1]) <= most


def journal(data: bytes) -> None:
    """Lines of a segment: sound records are judged on a short path, with the same outcome."""
    quick, slow = LineJudge(1), LineJudge(1)
    for line in data.split(b"\n"):
        quick.pass_line(line)
        slow._server = None
        slow.pass_line(line)
    assert quick.end() == slow.end()
    assert list(quick.numbers.findings()) == list(slow.numbers.findings())


def manifest(data: bytes) -> None:
    """Lines of a manifest."""
    judge = EntryJudge(None)
    for line in data.split(b"\n"):
        judge.pass_line(line)
    judge.end()


def spliced(data: bytes) -> None:
    """Objects, mostly plain ones: what the compiled module takes is what Python takes. Bytes as they are, too."""
    if SPEEDUPS is not None:
        compiled.compare(plain.stream(Draw(data), 30))
        compiled.compare(data)


def forwarded(data: bytes) -> None:
    """The same of objects of linked servers."""
    if SPEEDUPS is not None:
        compiled.compare_forwarded(plain.stream(Draw(data), 30, is_forwarded=True))
        compiled.compare_forwarded(data)


def compiled_server(data: bytes) -> None:
    """Two whole servers, with and without the compiled module."""
    if SPEEDUPS is not None:
        compiled.play(data)


TARGETS: dict[str, Target] = {
    each.__name__: each
    for each in (
        *(objects, spp, mqtt, websocket, inbus, users, tokens, policy, journal, manifest, server),
        *(spliced, forwarded, compiled_server),
    )
}


def seeds(name: str) -> list[bytes]:
    """Inputs to begin with, most of them accepted."""
    if name in ("journal", "manifest"):
        pattern = "*.jsonl" if name == "journal" else "manifest"
        return [b"\n".join(path.read_bytes().split(b"\n")[:12]) for path in sorted(JOURNAL.glob(pattern))]
    if name == "websocket":
        return [size + each for size in (b"\0", b"\1", b"\7") for each in SOCKETS]
    if name == "policy":
        return [text.encode() for text in POLICIES]
    if name in ("server", "spliced", "forwarded", "compiled_server"):
        return [Random(seed).randbytes(100 * seed) for seed in range(1, 11)]
    if name == "users":
        return [user_line("ann", b"secret").encode(), b"#", b"ann:scrypt$2$1$1$c2FsdA==$" + b"A" * 43 + b"="]
    if name == "tokens":
        whole = token_line("ann", "token", 1_800_000_000_000_000).encode()
        user, _, rest = whole.partition(b":")
        hashed, _, expiry = rest.rpartition(b"$")
        wrong = [b"anonymous:" + rest, user + b":" + hashed.upper(), whole + b"$", hashed + b"$" + expiry]
        return [whole, user + b":" + hashed, b":" + whole, *wrong, whole.replace(b"Z", b""), whole[:-10] + b"99:99:99Z"]
    vectors = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))["vectors"]
    short = [each for each in vectors if "text_parts" not in each]
    whole = [bytes.fromhex(each["hex"]) if "hex" in each else each["text"].encode() for each in short]
    return whole if name == "inbus" else [b"\0" + each for each in whole]
