"""Records that are full of trouble, for the tables of it: made up by Hypothesis, sound or not, and days of a synthetic
server.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bussrv import events as ev
from bussrv.journal.reading import read_journal
from bussrv.journal.record import Record
from bussrv.synth.faults import KINDS
from bussrv.synth.journal import write_journal
from tests.audit.journals import START, Writer

MINUTE = 60_000_000
HOUR = 60 * MINUTE
ADDRESSES = ("192.0.2.1", "192.0.2.2")

_SESSIONS = st.sampled_from(["a", "a", "b"])
_SERVICES = st.sampled_from(["tv", "tv", "radio"])
_NEIGHBOURS = st.sampled_from(["attic", "barn"])
_PEERS = st.sampled_from([None, *ADDRESSES, *(f"{host}:{port}" for host in ADDRESSES for port in (1, 2)), "[::1]:7"])
_PROTOCOLS = st.sampled_from(["inbus", "inbus", "objects"])
_SUPPRESSED = st.sampled_from([None, None, 1, 40])


def _made(kind: type[ev.Event], **fields: Any) -> st.SearchStrategy[ev.Event]:
    fixed = {name: each if isinstance(each, st.SearchStrategy) else st.just(each) for name, each in fields.items()}
    return st.builds(kind, **fixed)


_leased = partial(_made, session=_SESSIONS, service=_SERVICES, protocol=_PROTOCOLS, peer=_PEERS, routing_id=_NEIGHBOURS)
_claimed = st.sampled_from([None, "ann", "ben"])
_refused = partial(_made, session=_SESSIONS, peer=_PEERS, claimed=_claimed, suppressed=_SUPPRESSED)
_REASONS = st.sampled_from([None, "lease-expired", "lease-expired", "inbus-unreachable"])

LEASES: st.SearchStrategy[ev.Event] = st.one_of(
    _leased(ev.SubscriptionAdded),
    _leased(ev.SubscriptionRenewed),
    _leased(ev.SubscriptionRemoved, reason=_REASONS),
    _leased(ev.ServiceRegistered),
    _leased(ev.ServiceUnregistered, reason=_REASONS),
)
EVENTS: st.SearchStrategy[ev.Event] = st.one_of(
    _made(ev.LinkUp, routing_id=_NEIGHBOURS),
    _made(ev.LinkUp, routing_id=_NEIGHBOURS),
    _made(ev.LinkDown, routing_id=_NEIGHBOURS, reason=st.sampled_from(["client-closed", "replaced", None])),
    LEASES,
    LEASES,
    _refused(ev.AuthFailed, protocol="spp", reason="bad-credentials"),
    _refused(ev.ServiceRefused, protocol="objects", reason="reserved-name"),
    _refused(ev.SubscriptionRefused, protocol="spp", reason=st.sampled_from(["no-such-service", None])),
    _refused(ev.LimitReached, limit=st.sampled_from(["max-connects", "max-services"]), value=3),
    _made(ev.ConfigReloaded),
    _made(ev.ServerStopped),
)


@cache
def draw(number: int, events: st.SearchStrategy[ev.Event] = EVENTS) -> tuple[Record, ...]:
    """The records of so many servers, ``server0`` and so on."""
    drawn: list[list[Any]] = []
    steps = st.one_of(events, events, events, st.sampled_from(["start", "pause", "back", "again"]))

    @settings(max_examples=number, database=None, phases=[Phase.generate])
    @given(st.lists(steps, min_size=1, max_size=30))
    def collect(steps: list[Any]) -> None:
        drawn.append(steps)

    collect()
    return tuple(each for index, steps in enumerate(drawn) for each in _written(f"server{index}", steps))


def _written(server: str, steps: list[Any]) -> list[Record]:
    """A clock that stands still for a day, or is set back; records that are there twice, boots without a beginning."""
    writer, shift = Writer(server), 0
    for step in steps:
        if step in ("pause", "back"):
            shift += 13 * HOUR if step == "pause" else -MINUTE
        elif step == "again" and writer.records:
            writer.records.append(replace(writer.records[-1], mono=writer.records[-1].mono + 1))
        elif step == "start":
            writer.start()
        elif isinstance(step, ev.Event):
            writer.write(step)
        if writer.records and step != "again":
            writer.records[-1] = replace(writer.records[-1], time=START + writer.records[-1].mono + shift)
    return writer.records


@cache
def synthetic() -> tuple[Record, ...]:
    """Two days of servers that crash a few times, one of them with records that contradict each other."""
    with TemporaryDirectory() as name:
        hall, attic = Path(name, "hall"), Path(name, "attic")
        write_journal(hall, events=3000, seed=3, uptime=2.0 * HOUR)
        write_journal(attic, server="attic", events=2000, seed=5, uptime=1.0 * HOUR, faults=tuple(KINDS))
        return (*read_journal(hall), *read_journal(attic))
