"""Every interface of bussrv, and nothing else. Kept light: every ``twistd`` run imports it.

Words are those of the documentation's glossary. All methods belong to the reactor's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from collections import Counter

    from twisted.internet.defer import Deferred

    from bussrv.events import Event
    from bussrv.settings import Settings
    from bussrv.values import Interest, Publication, Traffic


class IWireFormat(Interface):
    """A wire format that ``twistd bussrv`` can serve: the plugin that authors of further formats write.

    Found with ``twisted.plugin.getPlugins``. Each one that is installed becomes an option ``--NAME`` of the command.
    The plugin object itself should be light; its protocol code is imported when :meth:`listen` is called.
    """

    name: str = Attribute("``str``: the option, and the ``protocol`` of its sessions; lower case, no spaces.")
    summary: str = Attribute("``str``: what it is and whom it serves, for ``--help``.")
    default_endpoint: str = Attribute("``str``: where it listens unless told otherwise, or ``off``.")

    def listen(bus: IBus, endpoint: str, reactor: Any) -> IListener:
        """Make what serves the format.

        :param bus: an :class:`IBus`.
        :param endpoint: ``str``: an endpoint description such as ``tcp:7890:interface=127.0.0.1``.
        :param reactor: the reactor.
        :returns: an :class:`IListener`, not started yet.
        :raises bussrv.errors.ConfigError: if the description makes no sense for this format.
        """


class IListener(Interface):
    """A started or stopped port of a wire format; also a Twisted ``IService``.

    Starting it raises ``CannotListenError`` when the port is busy. Stopping it closes the port and every session of it.
    """

    address: str = Attribute("``str``: where it really listens, such as ``tcp 127.0.0.1:7890``, once it is started.")

    def startService() -> None:
        """Listen."""

    def stopService() -> Deferred[Any]:
        """Close. :returns: fires when everything is closed."""


class ISession(Interface):
    """One client's presence, as the registry holds it. Never changes; the registry holds a new one instead."""

    id: str = Attribute("``str``: unique across sessions, restarts and servers.")
    protocol: str = Attribute("``str``: the name of its wire format.")
    routing_id: str = Attribute("``str``: its own address in the network; no other open session has it.")
    routing_ids: tuple[str, ...] = Attribute("``tuple[str, ...]``: further addresses, which sessions may share.")
    peer: str = Attribute("``str``: the address of the other side.")
    opened: int = Attribute("``int``: since when, UTC microseconds.")
    persistent: bool = Attribute("``bool``: whether it outlives a restart of the server.")
    home: str | None = Attribute("``str`` or ``None``: the server it belongs to, when that is another one.")
    actor: str | None = Attribute("``str`` or ``None``: the user it says it acts for.")
    name: str | None = Attribute("``str`` or ``None``: the program it says it is.")
    role: str | None = Attribute("``str`` or ``None``: ``server`` for a linked server.")
    vocabulary: str | None = Attribute("``str`` or ``None``: its words: objects, rules or business.")


class IEncoding(Interface):
    """How one kind of session is given what it wants. Sessions of one encoding and interest get the very same bytes."""

    def encode(delivery: Any) -> bytes | None:
        """The bytes of one object or publication.

        :param delivery: a :class:`bussrv.bus.delivery.Delivery`.
        :returns: ``bytes``, or ``None`` when this encoding cannot carry it (the encoding counts that).
        """


class ISessionLink(Interface):
    """The way out to one client."""

    def encoding_for(options: dict[str, Any] | None) -> IEncoding:
        """How the client is given what it wants.

        :param options: those of its subscription to a service, or ``None`` for a member of the object network.
        :returns: an :class:`IEncoding`; the same one for sessions that get the same bytes.
        """

    def send(batch: Any) -> None:
        """Send a :class:`bussrv.bus.delivery.Batch`, in order, behind everything sent before. Never blocks, never
        raises.

        What the client does not take is queued up to a limit; beyond it the link ends its session.
        """

    def close(reason: str) -> None:
        """End the connection, if there is one, because the server ended the session for ``reason``."""


class IRegistryObserver(Interface):
    """Is told of every change of the registry, after it is durable and applied."""

    def registry_changed(stamped: Any) -> None:
        """A change was applied. Must not raise.

        :param stamped: a :class:`bussrv.journal.record.Stamped`: the event and its time.
        """


class IRegistry(Interface):
    """Every session, service and subscription.

    Invariant: the registry equals the fold of the journal, but for sessions of which nothing was written yet (see
    :mod:`bussrv.registry.newcomers`). A change that is asked for is checked, written, durable, applied, and only then
    answered and announced, in that order. The methods that return a Deferred are such changes: it fires with ``None``
    when the change may be answered, and fails with :class:`bussrv.errors.Refused` when it was not made. Losing a
    session is applied at once.
    """

    state: Any = Attribute("The :class:`bussrv.registry.state.RegistryState` that others see. To be read only.")

    def open_session(protocol: str, peer: str, persistent: bool = False) -> ISession:
        """A client is present from now on. :returns: its :class:`ISession`, with a fresh routing id."""

    def close_session(session_id: str, reason: str, traffic: Traffic) -> None:
        """A session ended; so do its services and subscriptions. At most once for each session; later calls do nothing.

        :param traffic: a :class:`bussrv.values.Traffic`.
        """

    def open_far(home: str, protocol: str, routing_id: str, peer: str) -> tuple[str, Deferred[None]]:
        """Another server has a session that can be reached from here. :returns: its id here, and when it is present."""

    def is_free(routing_id: str) -> bool:
        """Whether no session has that routing id of its own."""

    def identify(identity: Any, interest: Interest | None) -> Deferred[Any]:
        """A session says who it is and what it wants, instead of what it said before.

        :param identity: a :class:`bussrv.registry.registry.Identity`.
        :param interest: ``None`` for the session of another server, which looks at it itself.
        :returns: fires with the session as it now is: with another routing id when the one asked for is taken.
        """

    def register_service(session_id: str, service: Any, *, hosted: bool = False) -> Deferred[None]:
        """A session wants to provide a service. Again: nothing changes.

        :param hosted: whether the server itself provides it, for which names are reserved.
        """

    def unregister_service(session_id: str, service: Any) -> Deferred[None]:
        """A session wants to provide a service no longer."""

    def unregister_services(session_id: str) -> Deferred[None]:
        """A session wants to provide nothing any more."""

    def subscribe(session_id: str, service: str, options: dict[str, Any] | None = None) -> Deferred[None]:
        """A session wants a service; again: the subscription is renewed."""

    def unsubscribe(session_id: str, service: str) -> Deferred[None]:
        """A session wants a service no longer."""

    def lose_service(session_id: str, service: str, reason: str) -> None:
        """A service that a session provided is over, without anybody asking: its lease ran out."""

    def lose_subscription(session_id: str, service: str, reason: str) -> None:
        """A subscription is over, without anybody asking: its lease ran out."""

    def refuse_subscription(session_id: str, service: str, reason: str) -> None:
        """Note that a wire format refused a subscription."""

    def note(event: Event) -> None:
        """Write down an event that changes nothing in the registry, such as the start of the server."""

    def note_from_stranger(event: Event) -> None:
        """The same for what a client causes by hitting a limit or being refused: at a limited rate per address."""

    def observe(observer: IRegistryObserver) -> None:
        """Tell ``observer``, an :class:`IRegistryObserver`, of every change from now on."""


class IJournal(Interface):
    """The registry events in order, numbered without gaps."""

    def append(stamped: Sequence[Any]) -> Deferred[list[Any]]:
        """Write events, one directly behind the other: all of them or none.

        :param stamped: a sequence of :class:`bussrv.journal.record.Stamped`.
        :returns: a Deferred of their records; fires when they are durable; fails with
            :class:`bussrv.errors.JournalUnavailable`. Deferreds fire in the order of the calls. When one fails, so do
            all of those that were called for before that was known.
        """

    def note(stamped: Any) -> None:
        """Write an event that has happened already. Never fails: kept until it can be written."""

    def follow(follower: Callable[[list[Any]], None]) -> None:
        """Call ``follower`` with what is durable from now on: in order, once, before anybody who waits is told."""

    def close() -> Deferred[None]:
        """Write what is queued and close. :returns: a Deferred that fires when that is done."""


class IBus(Interface):
    """What wire formats and hosted services work with: the registry, and who gets what."""

    registry: IRegistry = Attribute("The :class:`IRegistry`.")
    settings: Settings = Attribute("The :class:`bussrv.settings.Settings`.")
    counters: Counter[str] = Attribute("``collections.Counter``: what was dropped, refused or odd, by stable code.")
    server_id: str = Attribute("``str``: the routing id of this server.")
    links: ILinks = Attribute("The :class:`ILinks`.")

    def utc() -> int:
        """The present time, UTC microseconds."""

    def admit(protocol: str, peer: str) -> None:
        """Whether a client of that wire format may come in from that address. To be asked before :meth:`open`; if not,
        that is counted and journaled.

        :raises bussrv.errors.OverLimit: says which limit it would be over.
        """

    def open(protocol: str, peer: str, link: ISessionLink, persistent: bool = False) -> ISession:
        """A client is present: open its session, reached by ``link``. :returns: the :class:`ISession`."""

    def resume(session_id: str, link: ISessionLink) -> None:
        """A persistent session of an earlier boot is reached by ``link`` from now on."""

    def close(session_id: str, reason: str, traffic: Traffic) -> None:
        """A session ended."""

    def route(session_id: str, obj: Any) -> int:
        """Route an object that a member of the object network sent.

        :param obj: a :class:`bussrv.wire.objects.BusObject`.
        :returns: ``int``: how many sessions other than the sender are given it.
        """

    def route_run(session_id: str, run: Iterator[Any], served: Container[str | None]) -> Any:
        """Route objects as :meth:`route` does, up to one that has to go its own way, such as an event of ``served``.

        :returns: that object, taken from ``run``; ``None``: go on with what is left, if the session is within limits.
        """

    def relay(way: Any, obj: Any) -> None:
        """Route a ``BusObject`` of a linked server, unless it was here; ``way``: a :class:`bussrv.bus.ways.Way`."""

    def relay_run(ways: Any, run: Iterator[Any], served: Container[str | None]) -> Any:
        """As :meth:`route_run`, for a linked server and its :class:`bussrv.bus.ways.Ways`."""

    def publish(session_id: str, publication: Publication) -> None:
        """Deliver a publication to everybody who wants it, in every format."""

    def last(service: str) -> bytes:
        """What a new watcher begins with: the last payload published, or the snapshot of a service of the server."""

    def host(service: str, content_type: str, snapshot: Callable[[], bytes]) -> None:
        """A service is provided by the server itself.

        :param content_type: of its snapshots and updates.
        :param snapshot: makes its present state, ``bytes``.
        """

    def hosted_type(service: Any) -> str | None:
        """The content type of a service of the server itself; ``None`` for every other name."""

    def report(name: str, make: Callable[[], Any]) -> None:
        """Show under ``name`` in ``bus/statistics`` what ``make`` returns: anything that JSON has words for."""

    def reports() -> dict[str, Any]:
        """What is to be shown, by name, as it is now."""

    def is_watched(service: str) -> bool:
        """Whether somebody is subscribed to a service."""

    def update(service: str, payload: bytes) -> None:
        """Give ``payload`` to those who are subscribed to a service of the server itself."""

    def announce(fields: dict[str, Any], vocabulary: str | None, about: str) -> None:
        """Give an event of the server itself to members with one vocabulary, at the end of the turn.

        :param fields: its metadata, a ``dict``.
        :param about: the id of a session that is not told.
        """

    def tell(session_id: str, fields: dict[str, Any], payload: bytes = b"") -> None:
        """Answer one session: an event of the server itself, whatever its subscription says."""

    def flush() -> None:
        """Send what was routed and published; to be called at the end of each chunk of input."""

    def flush_in_turn(session_id: str, size: int) -> None:
        """The same for a chunk of ``size`` bytes: once a turn of the reactor, when several sessions send."""


class ILinks(Interface):
    """The links to other servers that are up."""

    async def admit(server_id: str, dialed: bool) -> None:
        """Make the routing id of a server that wants to link free for it: an older link to it ends, and so does the
        session of whoever else goes by that name.

        Two servers may dial each other; then both keep the link that was dialed by the one with the lesser routing id.

        :param dialed: whether this server dialed the other one.
        :raises bussrv.errors.Refused: ``duplicate-link``, if the older link is kept.
        """

    def unbar(server_id: str) -> None:
        """The link did not come about."""

    def up(session_id: str, way: ISessionLink, interest: Interest, *, tells_all: bool, dialed: bool) -> None:
        """A link stands. It is down when its session closes.

        :param way: the :class:`ISessionLink` of the session.
        :param interest: what the other server wants.
        :param tells_all: whether the other server tells of every session that it can reach.
        """

    def lost(server_id: str) -> Deferred[None]:
        """:returns: fires when there is no link to that server."""

    def neighbors() -> list[str]:
        """The routing ids of the servers that this one is linked with."""

    def hear(session_id: str, fields: dict[str, Any], route: list[str]) -> None:
        """A server told something of a session that it can reach: an event of :mod:`bussrv.bus.tidings`.

        :raises bussrv.errors.Refused: if it makes no sense, or there is no room for it.
        """

    def stop() -> None:
        """The server stops: no session of another server is entered any more."""

    def settled() -> Deferred[None] | None:
        """When everything that was told so far is in the registry; ``None``: it is."""


class IHostedService(Interface):
    """A service that the server itself provides: the plugin that authors of services write.

    Found with ``twisted.plugin.getPlugins``. The plugin object itself should be light; its code is imported when
    :meth:`make` is called.
    """

    name: str = Attribute("``str``: the name of the service; ``bus/`` is for those of bussrv.")
    summary: str = Attribute("``str``: what it tells, for ``--help``.")
    content_type: str = Attribute("``str``: the content type of its snapshots and updates.")

    def make(host: IServiceHost) -> IServiceObject:
        """Make what provides the service. :param host: an :class:`IServiceHost`."""


class IServiceHost(Interface):
    """What a hosted service works with."""

    bus: IBus = Attribute("The :class:`IBus`.")
    journal: IJournal = Attribute("The :class:`IJournal`.")
    reactor: Any = Attribute("The reactor.")

    def publish(payload: bytes) -> None:
        """Give ``payload``, ``bytes``, to those who subscribed to the service: SPP watchers and Inbus subscribers."""


class IServiceObject(Interface):
    """What provides a hosted service."""

    def snapshot() -> bytes:
        """The present state. No update lies between it and the next call of ``publish``. :returns: ``bytes``."""

    def watched() -> None:
        """Somebody subscribed, where nobody had before: updates are wanted from now on.

        Not from within this call: the snapshot comes first, and is asked for right after.
        """

    def unwatched() -> None:
        """Nobody is subscribed any more, or the server stops: no updates are wanted."""


class IAuthenticator(Interface):
    """Decides whether a client is who it says it is."""

    def authenticate(user: str, secret: bytes, peer: str) -> Deferred[bool]:
        """Check what a client said.

        :param user: ``str``.
        :param secret: ``bytes``.
        :param peer: ``str``: the address it comes from.
        :returns: a Deferred of ``bool``. Never fails.
        """
