"""``/api/v1/tap``: a stream of some of the objects that pass; see :mod:`bussrv.bus.taps.taps`.

The journal has the start and the end of each tap: the user, the filter, and how many objects were shown.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct
from twisted.internet.task import LoopingCall

from bussrv import events as ev
from bussrv.admin.http.answers import encode
from bussrv.admin.http.login import PROTOCOL
from bussrv.admin.http.routes import Call, Parameter
from bussrv.admin.http.sending import EventStream
from bussrv.admin.registry.collections import in_steps
from bussrv.admin.registry.writes import journal
from bussrv.bus.interfaces import IBus
from bussrv.bus.taps.tap import Tap, TapFilter, Tapped, TappedSender
from bussrv.journal.record import format_time
from bussrv.registry.state.naming import called, called_in
from bussrv.registry.state.state import RegistryState
from bussrv.wire.objects import decode_raw

MOST_RATE = 1_000
MOST_SAMPLE = 1_000_000
QUIET = 15.0
"""Seconds between two comments, which keep the connection in use while no object comes."""

_Text = Annotated[str, Meta(max_length=1024)]

PARAMETERS = (
    Parameter(
        name="service",
        type=_Text,
        help="Only publications on this service, and requests for it; `*` stands for any characters.",
        default="",
    ),
    Parameter(
        name="session",
        type=_Text,
        help="Only what this session sends, by its id or its routing id, and what is addressed to this routing id.",
        default="",
    ),
    Parameter(
        name="type",
        type=_Text,
        help="Only objects of this content type, or with `@` before it of this event; `*` stands for any characters.",
        default="",
    ),
    Parameter(name="format", type=_Text, help="Only what sessions of this wire format send.", default=""),
    Parameter(
        name="sample",
        type=Annotated[int, Meta(ge=1, le=MOST_SAMPLE)],
        help="Show one of so many objects.",
        default=1,
    ),
    Parameter(
        name="rate",
        type=Annotated[int, Meta(ge=1, le=MOST_RATE)],
        help="The most objects a second. Further ones are skipped.",
        default=100,
    ),
    Parameter(name="payload", type=bool, help="Show payloads, too: their first 64 KiB.", default=False),
)


class From(Struct, frozen=True):
    """The session that sent an object. Of an unknown session there is only the routing id.

    :ivar called: what a person calls it.
    """

    session: str | None
    routing_id: str
    protocol: str | None
    called: str


class TappedView(Struct, frozen=True, rename={"source": "from"}):
    """An object, as a stream shows it.

    :ivar to_count: how many other sessions received it; a link to another server counts as one. A provider that asks
        itself, and a client of MQTT that gets its own message, count, too.
    :ivar bytes: the size of its payload.
    :ivar payload: its payload in base64; ``None`` unless it was asked for.
    """

    time: str
    source: From
    to_count: int
    event: str | None
    type: str | None
    service: str | None
    bytes: int
    metadata: Raw
    payload: str | None


class Skipped(Struct, frozen=True):
    """The number of objects that were skipped: more came than the rate allows, or the client read too slowly."""

    count: int


async def tap(call: Call, stream: EventStream) -> None:
    """Some of the objects that pass, live. The journal has the start and the end of each tap.

    :raises Problem: the journal cannot note it.
    """
    wanted = msgspec.convert(dict(call.query), TapFilter)
    bus, caller = call.server.bus, call.caller
    await journal(call, "tap", described(wanted))
    most = bus.settings.admin_max_waiting
    opened = bus.taps.open(wanted, actor=caller.actor, peer=caller.peer, protocol=PROTOCOL, most=most)
    quiet = LoopingCall(stream.comment)
    quiet.clock = call.server.reactor
    quiet.start(QUIET)
    try:
        await _show(opened, stream, bus)
    finally:
        quiet.stop()
        bus.taps.close(opened)
        counts = f"shown={opened.shown} skipped={opened.skipped_so_far}"
        about: dict[str, Any] = {"protocol": PROTOCOL, "actor": caller.actor, "peer": caller.peer}
        bus.registry.note(ev.AdminAction(action="tap-ended", target=counts, **about))


async def _show(opened: Tap, stream: EventStream, bus: IBus) -> None:
    while stream.is_open and opened.is_open:
        await opened.news()
        await in_steps(_sent(opened, stream, bus.registry.state), bus.slices)
        await stream.room()


def _sent(opened: Tap, stream: EventStream, state: RegistryState) -> Iterator[None]:
    """Send what waits, an object a step, as long as the client takes it."""
    skipped = opened.take_skipped()
    if skipped:
        stream.send(encode(Skipped(skipped)), event="skipped")
    while stream.is_open and stream.has_room and (tapped := opened.take()) is not None:
        stream.send(encode(view_of(tapped, state)), event="object")
        yield


def described(wanted: TapFilter) -> str:
    """The filter of a tap, as the journal has it: the rate, and each parameter that is not its default."""
    fields = msgspec.structs.asdict(wanted)
    defaults = msgspec.structs.asdict(TapFilter())
    shown = {name: value for name, value in fields.items() if value != defaults[name] or name == "rate"}
    return " ".join(
        f"{name}={value:d}" if isinstance(value, int) else f"{name}={value}" for name, value in shown.items()
    )


def view_of(tapped: Tapped, state: RegistryState) -> TappedView:
    """An object, as a stream shows it. Blanks between values of its metadata are dropped; numbers stay as written.

    :param state: has the names of the sender, unless it is gone already.
    """
    metadata = {**decode_raw(tapped.metadata), "route": tapped.route}
    sender = tapped.sender
    return TappedView(
        time=format_time(tapped.time),
        source=From(sender.session, sender.routing_id, sender.protocol, _called(sender, state)),
        to_count=tapped.to_count,
        event=tapped.event,
        type=tapped.type,
        service=tapped.service,
        bytes=tapped.size,
        metadata=Raw(msgspec.json.format(msgspec.json.encode(metadata), indent=-1)),
        payload=None if tapped.payload is None else b64encode(tapped.payload).decode(),
    )


def _called(sender: TappedSender, state: RegistryState) -> str:
    session = state.sessions.get(sender.session or "")
    return called(sender) if session is None else called_in(state, session)
