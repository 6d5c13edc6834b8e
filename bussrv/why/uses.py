"""Uses of rights: what sessions did that a policy judges, as a journal tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

from msgspec import Struct

from bussrv import events as ev
from bussrv.events import Event
from bussrv.journal.moments import Moment
from bussrv.journal.reading import segments
from bussrv.policy.permissions.access import ANONYMOUS
from bussrv.policy.permissions.permissions import Action
from bussrv.registry.state.fold import RegistryFold
from bussrv.registry.state.naming import OWN_PROTOCOL
from bussrv.registry.state.session import LEASING, SERVER_ROLE
from bussrv.service_patterns import filter_of
from bussrv.why.past import segment_of, take_in
from bussrv.why.records import SegmentText

JOIN = "join"
"""What a session does that becomes a member of the object network: some rule has to apply to it."""


class Use(Struct, frozen=True):
    """Something that a session did.

    :ivar actions: the actions of which one must be allowed; empty: some rule has to apply to the session.
    :ivar peer: the address of the session.
    :ivar seq: the record that says so.
    :ivar time: when, UTC microseconds.
    :ivar count: how often, as far as the record says it.
    """

    user: str
    peer: str
    protocol: str
    actions: tuple[Action, ...]
    target: str
    seq: int
    time: int
    count: int = 1

    @property
    def what(self) -> str:
        """The action, for people."""
        return self.actions[0] if self.actions else JOIN


def uses_of(
    directory: Path,
    since: int | None = None,
    until: int | None = None,
    reveal: Callable[[Event], Event] = lambda event: event,
) -> Iterator[Use]:
    """What sessions of one server did, in order.

    :param since: UTC microseconds; ``None``: from the beginning of the journal.
    :param until: the first moment that does not count; ``None``: to its end.
    :param reveal: says what an event is with other names, such as those behind pseudonyms.
    :raises JournalError: the journal cannot be read.
    """
    paths = segments(directory)
    begin = 0 if since is None else segment_of(paths, Moment(time=since))
    known = _Known()
    for number, path in enumerate(paths[begin:]):
        text = SegmentText(path)
        if number == 0:
            fold = RegistryFold()
            for part in text.snapshot():
                take_in(fold, part, path)
            known.begin(fold)
        for place, event in text.records():
            if until is not None and place.time >= until:
                return
            found = known.use(event)
            if found is not None and (since is None or place.time >= since):
                actions, target = found
                shown = reveal(event)
                yield Use(
                    user=shown.actor or ANONYMOUS,
                    peer=shown.peer or "",
                    protocol=event.protocol or "",
                    actions=actions,
                    target=target,
                    seq=place.seq,
                    time=place.time,
                    count=event.count if isinstance(event, ev.AccessUsed) else 1,
                )


class _Known:
    """The sessions that are judged in another way: those of other servers, and links."""

    def __init__(self) -> None:
        self._remote: set[str] = set()
        self._links: set[str] = set()

    def begin(self, fold: RegistryFold) -> None:
        """Take in the registry before the first record."""
        for session in fold.state.sessions.values():
            if session.home is not None:
                self._remote.add(session.id)
            elif session.is_link:
                self._links.add(session.id)

    def use(self, event: Event) -> tuple[tuple[Action, ...], str] | None:
        """The right that an event took: the actions of which one must be allowed, and the target."""
        session = event.session or ""
        if isinstance(event, ev.SessionOpened):
            if event.home is not None:
                self._remote.add(session)
        elif isinstance(event, ev.SessionClosed):
            self._remote.discard(session)
            self._links.discard(session)
        elif isinstance(event, ev.SessionIdentified):
            if event.role == SERVER_ROLE and session not in self._remote:
                self._links.add(session)
        elif session not in self._remote and event.protocol != OWN_PROTOCOL:
            return self._right(event, session)
        return None

    def _right(self, event: Event, session: str) -> tuple[tuple[Action, ...], str] | None:
        service = event.service
        if isinstance(event, ev.AccessUsed):
            return (cast("Action", event.action),), event.target
        if isinstance(event, ev.ServiceRegistered) and service is not None:
            return (("publish", "provide") if event.protocol in LEASING else ("provide",)), service
        if isinstance(event, ev.SubscriptionAdded):
            if service is not None:
                return ("watch",), filter_of(service)
            if session in self._links:
                return ("link",), event.routing_id or ""
            return (), event.protocol or ""
        return None
