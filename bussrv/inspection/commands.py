"""The commands ``bussrv journal tail``, ``state``, ``diff`` and ``forget``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Any, TypeVar

from msgspec.json import encode
from msgspec.structs import replace

from bussrv.archive.fetching import at_hand
from bussrv.events import Event, event_name
from bussrv.incidents.vocabulary import address_of
from bussrv.inspection.difference import Difference, difference, lines
from bussrv.inspection.surroundings import Found, LinePlace, around
from bussrv.inspection.words import record_line, wants_colours, write
from bussrv.journal.header import Header
from bussrv.journal.instants import UTC
from bussrv.journal.moments import END, Moment
from bussrv.journal.pseudonym_keys import Kind, identities, join, renamed, renamed_rules, split
from bussrv.journal.pseudonym_keys import forget as destroy
from bussrv.journal.reading import Keep, Line, follow, read_end
from bussrv.journal.record import Record
from bussrv.registry.state.history import snapshots_by_server
from bussrv.registry.state.session import Session
from bussrv.registry.state.snapshot import Snapshot
from bussrv.spool.forgetting import forget as forget_kept
from bussrv.terminal import cleaned, word
from bussrv.values import InEffect

POLL_SECONDS = 0.2
"""The seconds between two looks for further records of a journal that is followed."""

DIFFERENT = 1

MOST_QUOTED = 160
"""The most characters that are shown of a line that is not a record."""


UNKNOWN = 1

Named = TypeVar("Named", Event, Session)


class Names:
    """The names in a key file, also while a server uses it. A person who is forgotten keeps the pseudonym.

    :raises JournalError: if it cannot be read or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._identities = {(each.kind, each.pseudonym): each.identity for each in identities(path)}

    def reveal(self, shown: Named) -> Named:
        """An event or a session, with its actor, the name it claims and its peer as they are."""
        return renamed(shown, self._name)

    def reveal_rules(self, shown: InEffect) -> InEffect:
        """The rules in effect, with the names of users and addresses as they are."""
        return renamed_rules(shown, self._name)

    def _name(self, kind: Kind, text: str) -> str:
        pseudonym, port = split(kind, text)
        identity = self._identities.get((kind, pseudonym))
        return text if identity is None else join(identity, port)


@dataclass(frozen=True)
class Tail:
    """The records to show.

    :ivar count: the most records, among those that pass the filters.
    :ivar follow: whether later ones are shown, too.
    :ivar session, service, protocol, events: filters; ``None``: any.
    :ivar user: a filter: the user that a client proved or claimed to be; ``address``: its address or peer.
    :ivar since, until: from this time on, and before that one, UTC microseconds.
    :ivar zone: of the times that are shown.
    :ivar around: the place around which records are shown, in place of the last ones.
    :ivar as_json: whether they are shown as they stand in the journal.
    :ivar pseudonyms: a file of keys.
    """

    directory: Path
    count: int
    follow: bool
    session: str | None
    service: str | None
    protocol: str | None
    events: frozenset[str] | None
    as_json: bool
    pseudonyms: Path | None
    around: LinePlace | None = None
    user: str | None = None
    address: str | None = None
    since: int | None = None
    until: int | None = None
    zone: tzinfo = UTC

    def keep(self, names: Names | None) -> Keep:
        """The filters, of records as they are shown."""
        wanted = {"session": self.session, "service": self.service, "protocol": self.protocol}
        wanted = {name: value for name, value in wanted.items() if value is not None}
        events = self.events

        def keep(record: Record) -> bool:
            return (
                (self.since is None or record.time >= self.since)
                and (self.until is None or record.time < self.until)
                and (events is None or event_name(record.event) in events)
                and all(getattr(record.event, name) == value for name, value in wanted.items())
                and self._is_client(record.event if names is None else names.reveal(record.event))
            )

        return keep

    def _is_client(self, event: Event) -> bool:
        is_user = self.user is None or self.user in (event.actor, event.claimed)
        return is_user and (self.address is None or self.address in (event.peer, address_of(event.peer)))


def tail(wanted: Tail) -> None:
    """Show the last records, and those to come."""
    in_colours = wants_colours(sys.stdout)

    names = None if wanted.pseudonyms is None else Names(wanted.pseudonyms)

    def show(lines: Iterable[Line]) -> None:
        for line in lines:
            if keep(line.record):
                write(line.text if wanted.as_json else f"{in_words(line.record)}\n".encode())

    def in_words(record: Record) -> str:
        shown = record if names is None else replace(record, event=names.reveal(record.event))
        return record_line(shown, in_colours, wanted.zone)

    if wanted.around is not None:
        for each in around(wanted.directory, wanted.around, wanted.count):
            if wanted.as_json:
                write(each.text)
            else:
                what = _no_record(each) if each.record is None else in_words(each.record)
                write(f"{what}\n".encode("utf-8", "backslashreplace"))
        return
    keep = wanted.keep(names)
    found, reader, salvage = read_end(wanted.directory, wanted.count, keep, wanted.since)
    if salvage is not None:
        sys.stderr.write(f"bussrv journal: {_left_out(salvage)}\n")
    try:
        show(found)
        if wanted.follow:
            show(follow(wanted.directory, reader, _pause))
    finally:
        reader.close()


def _left_out(salvage: Header) -> str:
    """Says that records before a salvage are not shown."""
    damage, first = salvage.salvaged, salvage.segment
    place = "" if damage is None or not damage.segment else f" in segment {damage.segment}, line {damage.line}"
    return f"a new chain begins with record {first}, after damage{place}; --around {first - 1} shows what is before it"


def _no_record(found: Found) -> str:
    text = found.text.decode("utf-8", "backslashreplace").rstrip("\n")
    cut = text if len(text) <= MOST_QUOTED else f"{text[:MOST_QUOTED]}…"
    return f"{found.file}, line {found.line}: not a record: {cleaned(cut)}"


def _pause() -> None:
    sys.stdout.buffer.flush()
    time.sleep(POLL_SECONDS)


def states(journals: Sequence[Path | str], at: Moment | None, pseudonyms: Path | None) -> dict[str, Snapshot]:
    """The registry of each server at a moment.

    :param journals: directories, or URLs.
    :param at: ``None``: the end.
    :param pseudonyms: a file of keys.
    """
    names = None if pseudonyms is None else Names(pseudonyms)

    def revealed(found: Snapshot) -> Snapshot:
        return found if names is None else replace(found, sessions=[names.reveal(each) for each in found.sessions])

    moments = [at or END]
    with at_hand(journals, moments) as directories:
        by_server = snapshots_by_server(directories, moments)
    return {server: revealed(found) for server, (found,) in by_server.items()}


def diff(journals: Sequence[Path | str], first: Moment, second: Moment, *, as_json: bool) -> int:
    """Show the differences between two moments, of journals in directories or at URLs. :returns: the exit status."""
    moments = [first, second]
    with at_hand(journals, moments) as directories:
        by_server = snapshots_by_server(directories, moments)
    differences = {server: difference(*found) for server, found in by_server.items()}
    if as_json:
        write_json(differences)
    else:
        write("\n".join(_difference_parts(differences)).encode())
    return DIFFERENT if any(differences.values()) else 0


def write_json(by_server: dict[str, Any]) -> None:
    """The value itself for one server; values by server for several."""
    write(encode(by_server if len(by_server) > 1 else next(iter(by_server.values()))) + b"\n")


def _difference_parts(by_server: dict[str, Difference]) -> Iterator[str]:
    for server, found in by_server.items():
        heading = [f"{word(server)}:"] if len(by_server) > 1 else []
        yield "".join(f"{line}\n" for line in (*heading, *lines(found)))


@dataclass(frozen=True)
class Unwanted:
    """Somebody to forget: one of these."""

    actor: str | None = None
    peer: str | None = None
    session: str | None = None


def forget(whom: Unwanted, file: Path | None, spool: Path | None, *, as_json: bool = False) -> int:
    """Forget a user, an address or a session: its key is destroyed, and what the spool keeps for it is removed.

    :param file: of the keys of pseudonyms. The journal stays as it is.
    :param spool: the directory of a spool.
    :returns: the exit status.
    :raises BussrvError: one of them cannot be read or written, or is damaged. Then the other may be done.
    """
    removed = None
    if file is not None:
        kind: Kind = "peer" if whom.actor is None else "actor"
        removed = destroy(file, kind, whom.actor or whom.peer or "")
    sessions, entries = (0, 0) if spool is None else forget_kept(spool, whom.actor, whom.peer, whom.session)
    is_forgotten = bool(removed or sessions)
    if as_json:
        kept = {} if spool is None else {"sessions": sessions, "entries": entries}
        sys.stdout.write(f"{encode({'forgotten': is_forgotten, **kept}).decode()}\n")
        return 0 if is_forgotten else UNKNOWN
    noun = "actor" if whom.actor is not None else "address"
    if removed is not None:
        done = f"The {noun} is forgotten: nothing leads from its pseudonyms to it any more.\n"
        sys.stdout.write(done if removed else f"There is no such {noun} in the key file.\n")
    if spool is not None:
        done = f"Removed from the spool: sessions {sessions}, entries {entries}.\n"
        sys.stdout.write(done if sessions else "The spool keeps nothing for it.\n")
    return 0 if is_forgotten else UNKNOWN
