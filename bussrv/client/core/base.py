"""The base of the cores of all wire formats.

A core is a client without sockets and without a clock: bytes and the time go in; bytes, events and the next deadline
come out. It outlives connections, so it knows what has to be subscribed and provided again. Whoever drives it

1. calls :meth:`Core.opened` when a connection is open, :meth:`Core.received` with every chunk, :meth:`Core.tick` when
   :meth:`Core.deadline` is reached, and :meth:`Core.lost` when the connection is gone;
2. sends what :meth:`Core.take_output` returns after each of these calls, and after each command;
3. ends the connection if :attr:`Core.ending` is set then.

Times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Literal, NoReturn, TypeAlias

from bussrv.client.core.inbox import Inbox
from bussrv.client.core.names import matches
from bussrv.client.errors import BusError, Lost, Offline, Unsupported
from bussrv.client.events import Change, Gone, Message, Reply, Request, State, Up
from bussrv.client.settings import Settings
from bussrv.service_patterns import is_pattern

_MOST_FOUND = 4096
"""For how many services it is remembered which inboxes get their messages."""

OnAnswer: TypeAlias = Callable[[Reply | BusError], None]
"""Is given the answer, or why there is none; once."""

OnDone: TypeAlias = Callable[[BusError | None], None]
"""Is called when the server has done something; with the reason, if it has not."""

OnRequest: TypeAlias = Callable[[Request], None]
"""Is given each request for a service."""

Tell: TypeAlias = Callable[[State], None]


class Core:
    """The client of one wire format.

    :param tell: is told of the states of the connection.
    :ivar is_up: whether the server has accepted the client.
    :ivar ending: the reason to end the connection now; ``None``: there is none.
    :ivar last_error: what the server said last, if it said something: the reason for which it then ends the connection.
    :ivar routing_id: the client's own address in the object network, once it is known.
    :ivar heard: when the last byte came.
    :ivar resume: is called when no inbox is full any more.
    """

    NAME = ""
    """The name of the wire format."""

    LOGIN = ""
    """The answer to a login that is waited for, in words, with a reason why it may not come."""

    CONFIRMS = False
    """Whether the server can say what it took."""

    WATCHES: Literal["service", "session", None] = None
    """The kind of what appears and goes; ``None``: the wire format does not say."""

    IS_WIDE = staticmethod(is_pattern)
    """Whether a name that is subscribed to may stand for several services."""

    def __init__(self, settings: Settings, tell: Tell) -> None:
        self.settings = settings
        self.is_up = False
        self.ending: BusError | None = None
        self.last_error: Lost | None = None
        self.routing_id: str | None = None
        self.heard = 0.0
        self.address = ""
        self.resume: Callable[[], None] = lambda: None
        self._tell = tell
        self._output: list[bytes] = []
        self._inboxes: dict[str, list[Inbox[Message]]] = {}
        self._wide: tuple[str, ...] = ()  # the names in it that are patterns
        self._found: dict[str, list[Inbox[Message]]] = {}
        self._full: set[Inbox[Any]] = set()
        self._watchers: list[Inbox[Change]] = []
        self._present: set[str] = set()
        self._was_up = False
        self._is_back = False
        self._has_left = False
        self._accept_by: float | None = None
        self._published = self._confirmed = 0

    # The connection.

    def opened(self, address: str, now: float) -> None:
        """A connection is open.

        :param address: the address of the server, for people.
        """
        self.address = address
        self.heard = now
        self.ending = self.last_error = None
        self._confirmed = self._published
        self._has_left = False
        self._output.clear()

    def received(self, data: bytes, now: float) -> None:
        """Bytes came.

        :raises bussrv.errors.RemoteProtocolError: the server sent something malformed; the connection is to be ended.
        """
        raise NotImplementedError

    def lost(self, error: BusError, now: float) -> None:
        """The connection is gone: whoever waits is told, and each subscription has a gap."""
        for name in sorted(self._present):
            self._see(name, Gone)
        if self._was_up:
            for inbox in self._each_inbox():
                inbox.gap(error.reason)
        self.is_up = self._was_up = False
        self.ending = self._accept_by = None
        self._output.clear()
        self.heard = now

    def tick(self, now: float) -> None:
        """The time goes on."""
        if self._accept_by is not None and now >= self._accept_by and not self._has_left:
            self.ending = Lost("login-timeout", f"{self.address} did not answer {self.LOGIN}")

    def deadline(self) -> float | None:
        """When :meth:`tick` has something to do; ``None``: not before something else happens."""
        return None if self._has_left else self._accept_by

    @property
    def is_paused(self) -> bool:
        """Whether nothing is to be read at the moment: an inbox is full."""
        return bool(self._full)

    @property
    def unconfirmed(self) -> int:
        """How many publications were sent over this connection since the server last gave a sign of what it took."""
        return self._published - self._confirmed

    @property
    def is_alone(self) -> bool:
        """Whether at most one exchange is under way, so that nothing else is likely to be sent together with it."""
        return False

    @property
    def has_output(self) -> bool:
        """Whether bytes wait to be sent."""
        return bool(self._output) and not self._has_left

    def take_output(self) -> list[bytes]:
        """The bytes to send now. For a datagram format each item is one datagram."""
        if self._has_left:
            return []
        output, self._output = self._output, []
        return output

    def farewell(self) -> bytes:
        """Nothing more is sent from now on. :returns: what is sent before the connection is closed."""
        self.is_up = False
        self._has_left = True
        return b""

    def close(self, error: BusError) -> None:
        """Nothing more is wanted: subscriptions end."""
        for inbox in (*self._each_inbox(), *self._watchers):
            inbox.end(error)

    # Commands. A wire format that cannot do something raises Unsupported. Members of the object network have more.

    def subscribe(self, inbox: Inbox[Message], names: Collection[str], done: OnDone) -> None:
        """Put the publications on services into an inbox, until :meth:`unsubscribe`; also after a reconnect.

        :param done: is called when the server has accepted it. While there is no connection: later.
        """
        raise NotImplementedError

    def unsubscribe(self, inbox: Inbox[Any]) -> None:
        """Put nothing into an inbox any more, whatever it was given."""
        raise NotImplementedError

    def publish(
        self, service: str, payload: bytes, content_type: str | None, attributes: dict[str, Any], done: OnDone | None
    ) -> None:
        """Publish. While there is no connection, the policy ``offline`` decides.

        :param done: is called when the server has taken it; ``None``: nobody asks.
        :raises Offline: there is no connection, and it is not kept.
        """
        self.cannot("publish")

    def watch(self, inbox: Inbox[Change]) -> None:
        """Put what appears and goes into an inbox, until :meth:`unsubscribe`."""
        if self.WATCHES is None:
            self.cannot("watch who comes and goes")
        self._connect(inbox)
        self._watchers.append(inbox)

    def offline(self) -> Offline:
        """The error of a command that needs a connection, while there is none."""
        return Offline(f"there is no connection to {self.address or 'the server'} at the moment")

    # For the cores.

    @property
    def _is_too_late(self) -> bool:
        """Whether this client has given up before the server accepted it."""
        return self._has_left and not self._was_up

    def _come_up(self) -> bool:
        """The server has accepted the client. :returns: whether it is back."""
        self._accept_by = None
        self.is_up = self._was_up = True
        is_back, self._is_back = self._is_back, True
        self._tell(Up(self.address, self.routing_id))
        return is_back

    def _see(self, name: str, change: type[Change]) -> bool:
        """It appeared, or is gone. :returns: whether that is new."""
        is_new = (name in self._present) is (change is Gone)
        if is_new and self.WATCHES is not None:
            (self._present.discard if change is Gone else self._present.add)(name)
            for inbox in self._watchers:
                inbox.put(change(self.WATCHES, name), 0)
        return is_new

    def cannot(self, what: str) -> NoReturn:
        """:raises Unsupported: the wire format cannot do that."""
        raise Unsupported(f"a client of {self.NAME} cannot {what}")

    def _each_inbox(self) -> Iterable[Inbox[Any]]:
        """Every inbox once."""
        return dict.fromkeys(inbox for inboxes in self._inboxes.values() for inbox in inboxes)

    def _connect(self, inbox: Inbox[Any]) -> None:
        """A full inbox pauses reading."""
        inbox.filled, inbox.relieved = partial(self._full.add, inbox), partial(self._relieve, inbox)

    def _relieve(self, inbox: Inbox[Any]) -> None:
        if inbox in self._full:
            self._full.discard(inbox)
            if not self._full:
                self.resume()

    def _add_inbox(self, inbox: Inbox[Message], names: Iterable[str]) -> None:
        self._connect(inbox)
        for name in names:
            self._inboxes.setdefault(name, []).append(inbox)
        self._names_changed()

    def _remove_inbox(self, inbox: Inbox[Any]) -> list[str]:
        """:returns: the names that nobody wants any more."""
        self._relieve(inbox)
        if inbox in self._watchers:
            self._watchers.remove(inbox)
        unwanted = []
        for name, inboxes in list(self._inboxes.items()):
            if inbox in inboxes:
                inboxes.remove(inbox)
                if not inboxes:
                    del self._inboxes[name]
                    unwanted.append(name)
        self._names_changed()
        return unwanted

    def _names_changed(self) -> None:
        self._wide = tuple(filter(self.IS_WIDE, self._inboxes))
        self._found.clear()

    def _inboxes_on(self, service: str) -> list[Inbox[Message]]:
        """The inboxes that are subscribed to a service by its name or by a pattern, each once."""
        found = self._found.get(service)
        if found is None:
            names = (service, *(each for each in self._wide if matches(service, [each])))
            found = list(dict.fromkeys(inbox for name in names for inbox in self._inboxes.get(name, ())))
            if len(self._found) >= _MOST_FOUND:
                self._found.clear()
            self._found[service] = found
        return found
