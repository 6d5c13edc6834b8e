"""The server, as the admin interface needs it. All methods belong to the reactor's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct
from twisted.internet.defer import Deferred

from bussrv.admin.incidents.known import KnownIncidents
from bussrv.bus.interfaces import IBus
from bussrv.events import Event
from bussrv.journal.condition import JournalCondition, JournalEnd
from bussrv.journal.interfaces import IJournal
from bussrv.journal.manifest import Seal
from bussrv.transparency.notes import Note
from bussrv.witness.submitting import WitnessCondition


class AdministeredJournal(Protocol):
    """The journal directory of a running server."""

    @property
    def directory(self) -> Path:
        """Its path."""

    @property
    def sync(self) -> str:
        """When a change counts as durable: ``always``, ``interval`` or ``off``."""

    def head(self) -> JournalEnd:
        """Its last record."""

    def ask_for_seal(self) -> None:
        """Ask the writer to end the segment that grows, and to seal it. It does so within a few seconds.

        :raises JournalError: the request cannot be written.
        """

    def is_asked_for_seal(self) -> bool:
        """Whether the writer has still to do what :meth:`ask_for_seal` asked for."""

    def last_seal(self) -> tuple[Seal, str] | None:
        """The last seal, and the hash of its line; ``None``: nothing is sealed."""

    def cosigned(self) -> tuple[str, Note] | None:
        """The hash of the seal whose checkpoint a witness cosigned last, and the checkpoint with all cosignatures;
        ``None``: no witness has cosigned one.
        """


class Dialed(Struct, frozen=True):
    """A link that this server is to dial.

    :ivar address: the description of its endpoint.
    :ivar server: the routing id of the server that answered last; ``None``: none has answered yet.
    """

    address: str
    server: str | None


class Reloaded(Struct, frozen=True):
    """The outcome of reading the configuration again.

    :ivar changed: the options that have other values now.
    :ivar restart: the options that only a restart changes.
    :ivar faults: a sentence for each reason why nothing changed; empty: the configuration is in effect.
    :ivar effects: a few words for each file that is another one now, and for what was withdrawn because of it.
    """

    changed: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()


class AdministeredServer(Protocol):
    """A running server.

    :ivar boot: the id of this boot.
    :ivar started: the time of its start, UTC microseconds.
    :ivar incidents: the incidents that are known.
    """

    bus: IBus
    journal: IJournal
    reactor: Any
    boot: str
    started: int
    incidents: KnownIncidents

    @property
    def place(self) -> AdministeredJournal | None:
        """The directory of the journal; ``None``: the journal is off."""

    def journal_condition(self) -> JournalCondition:
        """How well the journal can be written."""

    def witnesses(self) -> Sequence[WitnessCondition]:
        """How the witnesses are doing that cosign its journal."""

    def witness_answers(self) -> Mapping[int, int]:
        """How many requests this server answered as a witness, by HTTP status."""

    def dialed(self) -> Iterable[Dialed]:
        """The links that this server is to dial."""

    def formats(self) -> Mapping[str, str]:
        """The address of each wire format that is on, by its name."""

    def is_draining(self) -> bool:
        """Whether the server is about to stop, and takes no further clients."""

    def write(self, event: Event) -> Deferred[Any]:
        """Journal an event.

        :returns: fires when the event is durable; fails with ``JournalUnavailable``.
        """

    def clients(self) -> int:
        """How many sessions a drain would end: those of connections that are no links."""

    def reload(self) -> Deferred[Reloaded | None]:
        """Read the configuration again; ``None``: this server cannot, because it stops."""

    def drain(self) -> None:
        """Stop: sessions end one after the other."""

    def prepare_log_level(self, level: str, part: str | None) -> Callable[[], None]:
        """Check another least level of the log.

        :param part: a part of the server; ``None``: all parts without a level of their own.
        :returns: a function that puts the level into effect.
        :raises BadValue: there is no such level, or no such part.
        """

    def log_level(self) -> str:
        """The levels that are logged, such as ``info,journal=debug``."""
