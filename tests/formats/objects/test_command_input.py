"""Changes that a client asks for one by one are served in a short way, and nobody can tell that from the usual way."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.formats.objects.command_input import CommandInput
from bussrv.net.session.protocol import StreamProtocol
from bussrv.wire.objects import encode
from tests.formats.network import Member, Network

MEMBERS = range(3)
NAMES = ["tv", "door", "a b", "bus/x", "\u2603", "x" * 300, "{", "[", 7, None]

_who = st.sampled_from(MEMBERS)
_name = st.sampled_from([*5 * NAMES[:2], *NAMES])
_id = st.sampled_from(["1", 2, None, 2.5, ["3"], {"4": 5}])


def command(what: str, name: object, id_: object, more: dict[str, object], payload: bytes = b"") -> bytes:
    fields = {"event": f"services/{what}", "name": name, **({} if id_ is None else {"id": id_}), **more}
    return encode(fields, payload)


_command = st.builds(
    command, st.sampled_from(["register", "register", "unregister"]), _name, _id, st.sampled_from([{}, {}, {"to": "x"}])
)
REGISTER = command("register", "door", "1", {})
ODD = [
    # Payloads that look like a command.
    command("register", "tv", "1", {}, REGISTER),
    encode({"type": "text/plain"}, REGISTER),
    encode({"event": "services/unregister"}),
    encode({"event": "ping", "id": "p"}),
    encode({"event": "services/request", "name": "tv", "id": "r"}),
    encode({"type": "text/plain"}, b"hello"),
    encode({"type": "text/plain", "sender": "tv"}, b"news"),
    encode({"event": "services/discovery", "name": "tv"}),
    encode({"event": "routing/subscribe", "receive_mode": "none"}),
    encode({"event": "routing/subscribe"}),
    b'{"event":"services/register","name":"tv","size":"0"}\0',
    b'{"event":"services/register","name":"tv","event":"ping"}\0',
]
MALFORMED = [b'{"event":"services/register" "name":"tv"}\0', b"\xff\0", b"\0"]
_bytes = st.lists(st.one_of(_command, st.sampled_from(ODD)), min_size=1, max_size=2).map(b"".join)


@st.composite
def chunks(draw: st.DrawFn) -> list[bytes]:
    """Mostly one object in a chunk; sometimes several, or a part of one."""
    if draw(st.booleans()):
        return [draw(_command)]
    text = draw(_bytes if draw(st.integers(0, 9)) else st.sampled_from(MALFORMED))
    ends = [place + 1 for place, byte in enumerate(text) if not byte]
    cut = draw(st.one_of(st.integers(0, len(text)), st.sampled_from(ends)))
    return [part for part in (text[:cut], text[cut:]) if part]


_say = st.tuples(st.just("say"), _who, chunks())
_disk = st.tuples(st.sampled_from(["all", "all", "all", "one", "nothing", "outage"]), st.none(), st.none())
_steps = st.lists(st.tuples(_say, _disk), min_size=8, max_size=20).map(lambda drawn: list(chain.from_iterable(drawn)))


Step = tuple[str, int | None, list[bytes] | None]


class Scene:
    """A server with three members and a watcher of services."""

    def __init__(self) -> None:
        self.network = Network(max_services=2)
        self.network.factory("objects").in_turns = True
        self.members: list[Member] = [self.network.member() for _ in MEMBERS]
        self.watcher = self.network.watcher()
        # Changes that are durable at once are never waited for.
        self.network.journal.hold()

    def do(self, what: str, who: int | None, parts: list[bytes] | None) -> None:
        journal = self.network.journal
        if what == "say":
            connection = self.members[who or 0].connection
            for part in parts or ():
                if connection.is_open:
                    connection.send_bytes(part)
        elif what == "outage":
            journal.fail("full")
            journal.fail(None)
            journal.hold()
        elif what != "nothing":
            journal.release({"one": 1, "all": journal.held}[what])
        self.network.reactor.advance(0)

    def seen(self) -> object:
        """Everything that clients and the journal were told, and what the server counts."""
        connections = [each.connection for each in self.members]
        return (
            [(each.is_open, each.transport.value(), each.protocol.traffic) for each in connections],
            self.watcher.connection.transport.value(),
            self.network.journal.records,
            self.network.journal.held,
            self.network.bus.counters,
        )


@pytest.mark.parametrize("text", [REGISTER, *ODD, *MALFORMED])
def test_nobody_can_tell_at_any_end_of_a_chunk(text: bytes) -> None:
    between = [("say", 0, [command("register", "tv", "0", {})]), ("all", None, None)]
    ends = {place + more for place, byte in enumerate(text) if not byte for more in (0, 1, 2)}
    for cut in sorted(ends & set(range(len(text) + 1))):
        chunks = [part for part in (text[:cut], text[cut:] + REGISTER) if part]
        check_that_nobody_can_tell([*between, *((("say", 0, [chunk])) for chunk in chunks), *between])


@pytest.mark.long
@settings(max_examples=300)
@given(_steps)
def test_nobody_can_tell(steps: list[Step]) -> None:
    check_that_nobody_can_tell(steps)


def check_that_nobody_can_tell(steps: Sequence[Step]) -> None:
    short, usual = Scene(), Scene()
    for member in usual.members:
        member.connection.protocol.command_input._most = 0  # type: ignore[attr-defined]
    for step in steps:
        short.do(*step)
        usual.do(*step)
        assert short.seen() == usual.seen()


def test_the_short_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    serve = CommandInput.serve

    def counted(self: CommandInput, asker: StreamProtocol, data: bytes) -> bool:
        is_taken = serve(self, asker, data)
        taken.extend([len(data)] * is_taken)
        return is_taken

    monkeypatch.setattr(CommandInput, "serve", counted)
    network = Network()
    member = network.member(receive_mode="none")
    for number in range(4):
        network.journal.hold()
        member.send({"event": ("services/register", "services/unregister")[number % 2], "name": "tv"})
        network.journal.release()
    assert len(taken) == 3
