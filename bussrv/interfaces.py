"""Every interface of bussrv, and nothing else. Kept light: every ``twistd`` run imports it.

Words are those of the documentation's glossary. All methods belong to the reactor's thread.
"""

from __future__ import annotations

from zope.interface import Attribute, Interface


class IWireFormat(Interface):
    """A wire format that ``twistd bussrv`` can serve: the plugin that authors of further formats write.

    Found with ``twisted.plugin.getPlugins``. Each one that is installed becomes an option ``--NAME`` of the command. The
    plugin object itself should be light; its protocol code is imported when :meth:`listen` is called.
    """

    name = Attribute("``str``: the option, and the ``protocol`` of its sessions; lower case, no spaces.")
    summary = Attribute("``str``: what it is and whom it serves, for ``--help``.")
    default_endpoint = Attribute("``str``: where it listens unless told otherwise, or ``off``.")

    def listen(bus, endpoint, reactor):
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

    address = Attribute("``str``: where it really listens, such as ``tcp 127.0.0.1:7890``; set once it is started.")


class ISession(Interface):
    """One client's presence, as the registry holds it. Never changes; the registry holds a new one instead."""

    id = Attribute("``str``: unique across sessions, restarts and servers.")
    protocol = Attribute("``str``: the name of its wire format.")
    routing_id = Attribute("``str``: its own address in the network; no other open session has it.")
    routing_ids = Attribute("``tuple[str, ...]``: further addresses, which sessions may share.")
    peer = Attribute("``str``: the address of the other side.")
    opened = Attribute("``int``: since when, UTC microseconds.")
    persistent = Attribute("``bool``: whether it outlives a restart of the server.")
    actor = Attribute("``str`` or ``None``: the user it says it acts for.")
    name = Attribute("``str`` or ``None``: the program it says it is.")
    role = Attribute("``str`` or ``None``: ``server`` for a linked server.")
    vocabulary = Attribute("``str`` or ``None``: which words it is spoken to with: objects, rules or business.")


class IEncoding(Interface):
    """How one kind of session is given what it wants. Sessions of one encoding and interest get the very same bytes."""

    def encode(delivery):
        """The bytes of one object or publication.

        :param delivery: a :class:`bussrv.bus.delivery.Delivery`.
        :returns: ``bytes``, or ``None`` when this encoding cannot carry it (the encoding counts that).
        """


class ISessionLink(Interface):
    """The way out to one client."""

    def encoding_for(options):
        """How the client is given what it wants.

        :param options: those of its subscription to a service, or ``None`` for a member of the object network.
        :returns: an :class:`IEncoding`; the same one for sessions that get the same bytes.
        """

    def send(batch):
        """Send a :class:`bussrv.bus.delivery.Batch`, in order, behind everything sent before. Never blocks, never raises.

        What the client does not take is queued up to a limit; beyond it the link ends its session.
        """

    def close(reason):
        """End the connection, if there is one, because the server ended the session for ``reason``."""


class IRegistryObserver(Interface):
    """Is told of every change of the registry, after it is durable and applied."""

    def registry_changed(stamped):
        """A change was applied. Must not raise.

        :param stamped: a :class:`bussrv.journal.record.Stamped`: the event and its time.
        """


class IRegistry(Interface):
    """Every session, service and subscription.

    Invariant: the registry equals the fold of the journal. A change that is asked for is checked, written, durable, applied,
    and only then answered and announced, in that order. The methods that return a Deferred are such changes: it fires with
    ``None`` when the change may be answered, and fails with :class:`bussrv.errors.Refused` when it was not made. Losing a
    session is applied at once.
    """

    state = Attribute("The :class:`bussrv.registry.state.RegistryState` that others see. To be read only.")

    def open_session(protocol, peer, persistent=False):
        """A client is present from now on. :returns: its :class:`ISession`, with a fresh routing id."""

    def close_session(session_id, reason, traffic):
        """A session ended; so do its services and subscriptions. At most once for each session; later calls do nothing.

        :param traffic: a :class:`bussrv.values.Traffic`.
        """

    def identify(identity, interest):
        """A session says who it is and what it wants, instead of what it said before.

        :param identity: a :class:`bussrv.registry.registry.Identity`.
        :returns: fires with the session as it now is: with another routing id when the one asked for is taken.
        """

    def register_service(session_id, service):
        """A session wants to provide a service. Again: nothing changes."""

    def unregister_service(session_id, service):
        """A session wants to provide a service no longer."""

    def subscribe(session_id, service, options=None):
        """A session wants a service; again: the subscription is renewed."""

    def unsubscribe(session_id, service):
        """A session wants a service no longer."""

    def lose_service(session_id, service, reason):
        """A service that a session provided is over, without anybody asking: its lease ran out."""

    def lose_subscription(session_id, service, reason):
        """A subscription is over, without anybody asking: its lease ran out."""

    def refuse_subscription(session_id, service, reason):
        """Note that a wire format refused a subscription."""

    def note(event):
        """Write down an event that changes nothing in the registry, such as the start of the server."""

    def note_from_stranger(event):
        """The same for what a client causes by hitting a limit or being refused: at a limited rate per address."""

    def observe(observer):
        """Tell ``observer``, an :class:`IRegistryObserver`, of every change from now on."""


class IJournal(Interface):
    """The registry events in order, numbered without gaps."""

    def append(stamped):
        """Write events, one directly behind the other: all of them or none.

        :param stamped: a sequence of :class:`bussrv.journal.record.Stamped`.
        :returns: a Deferred of their records; fires when they are durable; fails with
            :class:`bussrv.errors.JournalUnavailable`. Deferreds fire in the order of the calls.
        """

    def note(stamped):
        """Write an event that has happened already. Never fails: kept until it can be written."""

    def close():
        """Write what is queued and close. :returns: a Deferred that fires when that is done."""


class IBus(Interface):
    """What wire formats and hosted services work with: the registry, and who gets what."""

    registry = Attribute("The :class:`IRegistry`.")
    settings = Attribute("The :class:`bussrv.settings.Settings`.")
    counters = Attribute("``collections.Counter``: what was dropped, refused or odd, by stable code.")
    server_id = Attribute("``str``: the routing id of this server.")

    def utc():
        """The present time, UTC microseconds."""

    def open(protocol, peer, link, persistent=False):
        """A client is present: open its session, reached by ``link``. :returns: the :class:`ISession`."""

    def resume(session_id, link):
        """A persistent session of an earlier boot is reached by ``link`` from now on."""

    def close(session_id, reason, traffic):
        """A session ended."""

    def route(session_id, obj):
        """Route an object that a member of the object network sent.

        :param obj: a :class:`bussrv.wire.objects.BusObject`.
        :returns: ``int``: how many sessions other than the sender are given it.
        """

    def publish(session_id, publication):
        """Deliver a publication to everybody who wants it, in every format."""

    def last(service):
        """The last payload published on a service: what a new watcher begins with. :returns: ``bytes``."""

    def announce(fields, vocabulary, accepts):
        """Give an event of the server itself to members of the object network.

        :param fields: its metadata, a ``dict``.
        :param vocabulary: only members with that vocabulary.
        :param accepts: called with an :class:`ISession`: only those for which it is true.
        """

    def tell(session_id, fields, payload=b""):
        """Answer one session: an event of the server itself, whatever its subscription says."""

    def flush():
        """Send what was routed and published; to be called at the end of each chunk of input."""


class IServiceObject(Interface):
    """A service that the server itself provides; the plugin that authors of services write."""

    name = Attribute("``str``: the name of the service.")
    content_type = Attribute("``str``: the content type of its snapshots and updates.")

    def start(publish):
        """Somebody may watch from now on.

        :param publish: to be called with the ``bytes`` of each update.
        """

    def snapshot():
        """The present state. No update lies between it and the next call of ``publish``. :returns: ``bytes``."""

    def stop():
        """The server stops."""


class IAuthenticator(Interface):
    """Decides whether a client is who it says it is."""

    def authenticate(user, secret, peer):
        """Check what a client said.

        :param user: ``str``.
        :param secret: ``bytes``.
        :param peer: ``str``: the address it comes from.
        :returns: a Deferred of ``bool``. Never fails.
        """
