"""Records of sessions that provide and want services: made up by Hypothesis, sound or not, days of a synthetic server;
and what the registry was before some of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import Phase, settings
from hypothesis import given as for_each
from hypothesis import strategies as st
from msgspec.structs import replace

from bussrv import events as ev
from bussrv.journal.reading import read_journal
from bussrv.journal.record import Record
from bussrv.registry.state.fold import RegistryFold
from bussrv.registry.state.session import Session
from bussrv.synth.faults import KINDS
from bussrv.synth.journal import write_journal
from tests.audit.journals import START, STEP, Writer
from tests.size import sized

HOUR = 3600 * 1_000_000

_ABOUT: dict[str, Any] = {
    "protocol": st.sampled_from(["objects", "objects", "inbus", None]),
    "routing_id": st.sampled_from([None, "r1", "r2"]),
    "actor": st.sampled_from([None, None, "ann", "bob"]),
    "claimed": st.sampled_from([None, None, "ann", "cid"]),
    "peer": st.sampled_from([None, "192.0.2.1:5", "[::1]:7", "192.0.2.3"]),
    "session": st.sampled_from(["a", "b", "c", "d"]),
}


def _made(kind: type[ev.Event], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[ev.Event]:
    return st.builds(kind, **{**_ABOUT, **fields})


_SERVICE = st.sampled_from(["tv", "radio"])
_SERVICE_OR_NONE = st.sampled_from(["tv", "radio", "tv", None])
EVENTS = st.one_of(
    _made(ev.SessionOpened, persistent=st.booleans(), home=st.sampled_from([None, None, "attic"])),
    _made(ev.SessionOpened, expiry=st.just(9)),
    _made(ev.SessionIdentified, name=st.sampled_from([None, "tool"]), role=st.sampled_from([None, "server"])),
    _made(ev.SessionClosed, duration=st.integers(0, 10**7), bytes_in=st.integers(0, 9), reason=st.just("gone")),
    *[_made(kind, service=_SERVICE) for kind in (ev.ServiceRegistered, ev.ServiceUnregistered) * 2],
    *[_made(ev.SubscriptionAdded, service=_SERVICE_OR_NONE) for _ in range(2)],
    *[_made(kind, service=_SERVICE_OR_NONE) for kind in (ev.SubscriptionRemoved, ev.SubscriptionRenewed)],
    _made(ev.ServiceRefused, service=_SERVICE),
    _made(ev.AuthSucceeded),
    *[_made(ev.SessionLeft, until=st.integers(0, 10**16), reason=st.just("gone")) for _ in range(2)],
    *[_made(ev.SessionResumed, expiry=st.just(7)) for _ in range(2)],
    _made(ev.AuthFailed),
    st.builds(ev.ConfigReloaded),
)
# After how many steps of the clock each record comes; sometimes the clock is set back.
PLANS = st.tuples(
    st.lists(st.tuples(EVENTS, st.sampled_from([0, 1, 1, 1, 2, -3, 3000])), min_size=12, max_size=30),
    st.lists(st.integers(0, 24), max_size=2),
    st.sampled_from([0.0, 0.0, 0.5]),
)


@dataclass
class Collected:
    """Records of many servers, and what was before them."""

    records: list[Record] = field(default_factory=list)
    given: list[Record] = field(default_factory=list)

    def add(self, records: list[Record], given: list[Record]) -> None:
        self.records += records
        self.given += given


def planned() -> list[Record]:
    """Twice, the later time behind whatever a period leaves out: what has to be among records that are drawn. Two
    sessions at once, which stay for hours; a service that comes back, and one that never goes; somebody who waits in
    vain.
    """
    writer = Writer("planned")
    for turn in ("1", "2"):
        provider, other, service = f"provider{turn}", f"other{turn}", f"tv{turn}"
        writer.open(provider)
        writer.open(other)
        writer.register(provider, service)
        writer.register(provider, "radio")
        writer.unregister(provider, service)
        writer.write(ev.SubscriptionAdded(session=other, service=service))
        writer.write(ev.SubscriptionRemoved(session=other, service=service))
        writer.seq += 2 * HOUR // STEP
        writer.register(provider, service)
        writer.close(other)
    return writer.records


def drawn(number: int) -> Collected:
    """So many servers: of some, the first records are not there any more, and of some a few are there twice. And one
    whose records are the ``planned`` ones."""
    found = Collected(planned())

    @settings(max_examples=number, database=None, phases=[Phase.generate], deadline=None)
    @for_each(PLANS)
    def collect(plan: Any) -> None:
        steps, repeated, part = plan
        server, time, records = f"server{len({each.server for each in found.records})}", START, []
        for seq, (event, pause) in enumerate(steps, 1):
            time += pause * STEP
            records.append(Record(seq, time, seq, server, "boot", event))
        records, given = without_the_first(records, int(part * len(records)))
        twice = [records[each] for each in repeated if each < len(records)]
        found.add([*records, *(replace(each, time=each.time + STEP) for each in twice)], given)

    collect()
    return found


def everything(directory: Path, cases: Iterable[tuple[list[Record], list[Record]]]) -> tuple[Collected, set[str]]:
    """Of everything something: those that are drawn, ``days``, and cases, each of a server of its own.

    :param cases: the records of each, and what was before them.
    :returns: also which servers are those of ``days``.
    """
    found, of_days = drawn(sized(80)), days(directory)
    found.add(of_days.records, of_days.given)
    for records, given in cases:
        found.add(records, given)
    return found, {each.server for each in of_days.records}


def without_the_first(records: list[Record], number: int) -> tuple[list[Record], list[Record]]:
    """What is left when so many records are gone, and what the audit is given instead of them."""
    fold = RegistryFold()
    for each in records[:number]:
        fold.apply(each.event, each.time)
    return records[number:], list(_given(fold, records[number])) if number else []


def _given(fold: RegistryFold, begin: Record) -> Iterator[Record]:
    def record(mono: int, moment: int, event: ev.Event) -> Record:
        return Record(begin.seq - 1, moment, mono, begin.server, begin.boot, event)

    state = fold.state
    for each in state.sessions.values():
        about = _about(each)
        opened = ev.SessionOpened(persistent=each.persistent, home=each.home, **about)
        yield record(0, each.opened, opened)
        if each.is_away:
            yield record(5, each.away.since, ev.SessionLeft(until=each.away.until, **about))
        yield record(1, each.opened, ev.SessionIdentified(name=each.name, role=each.role, **about))
    for service, providers in state.services.items():
        for session, moment in providers.items():
            yield record(2, moment, ev.ServiceRegistered(service=service, **_about(state.sessions[session])))
    for wanted in state.all_subscriptions():
        about = _about(state.sessions[wanted.session])
        yield record(3, wanted.added, ev.SubscriptionAdded(service=wanted.service, **about))


def _about(session: Session) -> dict[str, Any]:
    # What an opening did not say, the registry takes for empty.
    return {name: value or None for name, value in session.about().items()}


def days(directory: Path) -> Collected:
    """Days of synthetic servers: with everything that is wrong with a journal, with crashes, begun in the middle."""
    found = Collected()
    for number, (faults, uptime) in enumerate([((), 9e8), (tuple(KINDS), 2e8), ((), 1e8)]):
        server = f"house{number}"
        path = directory / server
        write_journal(path, events=700, seed=number, server=server, faults=faults, uptime=uptime)
        records = list(read_journal(path))
        found.add(*without_the_first(records, 300 if number == 2 else 0))
    return found
