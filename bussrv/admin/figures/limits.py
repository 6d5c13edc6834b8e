"""``/api/v1/limits`` and ``/api/v1/counters``: what is limited, and how often each limit was hit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct

from bussrv.admin.http.routes import Call
from bussrv.admin.registry.collections import Page, page_of
from bussrv.errors import COUNTERS, REASONS
from bussrv.options import Option, rows
from bussrv.settings import Settings

_CODE = re.compile(r"`([a-z0-9-]+)`")

_UNITS: tuple[Literal["bytes", "seconds"], ...] = ("bytes", "seconds")


class LimitItem(Struct, frozen=True, kw_only=True):
    """A limit.

    :ivar name: the option that sets it.
    :ivar unit: of its value: ``bytes`` or ``seconds``; empty: it is a number of things.
    :ivar counter: the counter of the limit.
    :ivar count: how often the limit was hit since the start.
    """

    name: str
    value: Any
    default: Any
    counter: str
    count: int
    help: str
    unit: Literal["bytes", "seconds", ""]


class Counters(Struct, frozen=True, kw_only=True):
    """All counters, and how many of each thing there are.

    :ivar counters: the counts since the start, by stable code.
    :ivar sessions: open sessions of this server, by wire format, without those that are away.
    :ivar away: durable sessions whose clients are not connected, by wire format.
    :ivar far: sessions of other servers.
    :ivar reports: further figures of parts of the server.
    """

    seq: int
    counters: dict[str, int]
    sessions: dict[str, int]
    away: dict[str, int]
    far: int
    services: int
    subscriptions: int
    links: list[str]
    reports: dict[str, Any]


async def limits(call: Call) -> Page:
    """Every limit, and how often it was hit."""
    return await page_of(call, _items(call))


def _items(call: Call) -> Iterator[LimitItem]:
    bus = call.server.bus
    for option, counter in limited():
        yield LimitItem(
            name=option.name,
            value=getattr(bus.settings, option.sets),
            default=option.default,
            counter=counter,
            count=bus.counters[counter],
            help=option.help,
            unit=next((each for each in _UNITS if option.kind.takes.startswith(each)), ""),
        )


@lru_cache
def limited() -> tuple[tuple[Option, str], ...]:
    """The options that set limits, each with the name of its counter: its own name, or the code that its help names."""
    found = ((each, _counter(each)) for each in rows(Settings) if type(each.default) in (int, float))
    return tuple((option, counter) for option, counter in found if counter)


def _counter(option: Option) -> str:
    names = [option.name, *_CODE.findall(option.help)]
    return next((name for name in names if name in COUNTERS or name in REASONS), "")


async def counters(call: Call) -> Counters:
    """All counters, and how many sessions, services and subscriptions there are."""
    bus = call.server.bus
    state = bus.registry.state
    totals = sorted(bus.totals.by_format().items())
    return Counters(
        seq=call.shared.seq,
        counters={name: count for name, count in sorted(bus.counters.items()) if count},
        sessions={name: total.open for name, total in totals if total.open},
        away={name: total.away for name, total in totals if total.away},
        far=max(0, len(state.sessions) - sum(total.present for _, total in totals)),
        services=len(state.services),
        subscriptions=sum(map(len, state.subscriptions.values())),
        links=bus.links.neighbors(),
        reports=call.shared.reports(),
    )
