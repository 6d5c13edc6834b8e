"""The sound records of journals, each with the segment that it is in, and as the audit is given them."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Raw

from bussrv import events as ev
from bussrv.errors import JournalError
from bussrv.journal import header
from bussrv.journal.record import Record, decode
from bussrv.journal.segment import first_seq, is_compressed, list_segments
from bussrv.registry.state.fold import RegistryFold
from bussrv.registry.state.state import RegistryState
from tests.audit.oracles.consistency import Placed


def placed(journal: Path) -> list[Placed]:
    """What can be read of a journal."""
    found = []
    for path in list_segments(journal):
        for line in _lines(path):
            with suppress(JournalError):
                found.append(Placed(decode(line), first_seq(path)))
    return found


def given(journal: Path) -> list[Record]:
    """What the registry was before the first record of a journal, as the audit puts it into records."""
    begin, fold, parts = placed(journal)[0].record, RegistryFold(), []
    for line in _lines(list_segments(journal)[0]):
        with suppress(JournalError):
            parts.append(header.decode_part(line))
    for part in parts:
        fold.take(Raw(bytes(part.state)))
    return list(_records(fold.state, begin))


def _lines(path: Path) -> list[bytes]:
    text = gzip.decompress(path.read_bytes()) if is_compressed(path) else path.read_bytes()
    return text.split(b"\n")[:-1]


def _records(state: RegistryState, begin: Record) -> Iterable[Record]:
    def record(mono: int, moment: int, event: ev.Event) -> Record:
        return Record(begin.seq - 1, moment, mono, begin.server, begin.boot, event)

    for each in state.sessions.values():
        about = each.about()
        yield record(0, each.opened, ev.SessionOpened(persistent=each.persistent, home=each.home, **about))
        if each.is_away:
            yield record(5, each.away.since, ev.SessionLeft(until=each.away.until, **about))
        yield record(1, each.opened, ev.SessionIdentified(routing_ids=each.routing_ids, **about))
    for service, providers in state.services.items():
        for session, moment in providers.items():
            yield record(2, moment, ev.ServiceRegistered(session=session, service=service))
    for each in state.all_subscriptions():
        yield record(3, each.added, ev.SubscriptionAdded(session=each.session, service=each.service))
