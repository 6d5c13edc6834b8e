"""The interfaces of the bus: what wire formats ask of it, and what it asks of them. For the reactor's thread only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from zope.interface import Attribute, Interface

from bussrv.bus.flush_schedule import NEVER

if TYPE_CHECKING:
    from collections import Counter

    from twisted.internet.defer import Deferred

    from bussrv.bus.groups.frames import Delivery
    from bussrv.bus.link_clocks import LinkClocks
    from bussrv.bus.links.facts import LinkFacts
    from bussrv.bus.links.lost_links import LostLink
    from bussrv.bus.links.paths import Paths
    from bussrv.bus.routing.compiled_result import ScanResult
    from bussrv.bus.services.announcements import Announcements
    from bussrv.bus.services.hosted import Hosted
    from bussrv.bus.services.retained import Retained
    from bussrv.bus.services.traffic import ServiceTraffic
    from bussrv.bus.sessions.totals import Totals
    from bussrv.bus.taps.tap import Tap, TapFilter
    from bussrv.counts.histogram import Histogram
    from bussrv.memory.bundle import Bundle
    from bussrv.memory.resources import ConnectionResources
    from bussrv.policy.interfaces import IIdentity
    from bussrv.policy.permissions.access import Access
    from bussrv.policy.permissions.permissions import Action, Permissions
    from bussrv.registry.interfaces import IRegistry
    from bussrv.registry.state.session import Session
    from bussrv.settings import Settings
    from bussrv.spool.interfaces import ISpool
    from bussrv.turns.slices import Slices
    from bussrv.values import Interest, Publication, Traffic
    from bussrv.wire.objects import BusObject, ObjectReader


Shown = Callable[["Permissions"], "dict[str, Any] | None"]
"""Metadata as sessions with some permissions see it; ``None``: they do not see it."""


AsPublication = Callable[["Delivery"], "Publication | None"]
"""The publication by which a session is given a request, a reply or an error; ``None``: it is not given it."""


TellSession = Callable[[str, "dict[str, Any]"], None]
"""Sends an event of the server itself to a session; see :meth:`ISending.tell`."""


class IEncoding(Interface):
    """Makes *frames*: the bytes of objects and publications, as sessions of one wire format and version get them.

    Sessions with the same encoding and the same interest get the same bytes.
    """

    def encode(delivery: Delivery) -> bytes | None:
        """The frame of one object or publication; ``None``: this encoding cannot carry it, and has counted that."""


class ISessionLink(Interface):
    """Sends frames to one client."""

    traffic: Traffic = Attribute("The :class:`bussrv.values.Traffic` of the session so far.")
    waiting: int = Attribute("``int``: how many bytes wait for the client.")

    def encoding_for(options: dict[str, Any] | None) -> IEncoding:
        """The encoding for the client.

        :param options: those of its subscription to a service, or ``None`` for a member of the object network.
        :returns: an :class:`IEncoding`; the same one for sessions that get the same bytes.
        """

    def send(bundle: Bundle) -> None:
        """Send frames in order, after everything sent before. Never blocks, never raises.

        Frames that the client does not take are queued up to a limit; beyond it the link ends its session.
        """

    def close(reason: str) -> None:
        """End the connection, if there is one, because the server ended the session for ``reason``."""


class IFilteringLink(ISessionLink):
    """The link to a client whose subscriptions, patterns among them, are one set: it gets each publication once."""

    is_away: bool = Attribute("``bool``: whether its session is durable, and its client is not connected.")

    def encoding_of(filters: Mapping[str, dict[str, Any] | None], *, is_alone: bool) -> IEncoding:
        """The encoding for a client with these subscriptions.

        :param filters: the options of each, by name or pattern: those of its last ``subscribe``; ``None`` if that had
            none.
        :param is_alone: whether it is for this client alone, and may be changed by :meth:`refilter`.
        :returns: the same one for sessions that get the same bytes.
        """

    def refilter(encoding: IEncoding, changed: str, options: dict[str, Any] | None, *, is_there: bool) -> None:
        """A subscription of a client with an encoding of its own came, went, or has other options."""


class ISessions(Interface):
    """Sessions of clients: admitted, opened, closed."""

    def admit(protocol: str, peer: str) -> None:
        """To be asked before :meth:`open`. :raises bussrv.errors.OverLimit: that is counted and journaled."""

    def expect(protocol: str, peer: str, is_admitted: bool = False) -> Callable[[], None]:
        """Admit a client whose session opens later. It counts as a session until the result is called.

        :param is_admitted: whether it has been admitted, so that it is only counted.
        """

    def open(
        protocol: str,
        peer: str,
        link: ISessionLink,
        persistent: bool = False,
        *,
        expiry: int | None = None,
        actor: str | None = None,
    ) -> Session:
        """Open a session for a client that is reached by ``link``; see :meth:`IRegistry.open_session`."""

    def leave(session_id: str, reason: str, until: int) -> None:
        """A durable session has lost its connection, after it was sent its collected frames.

        It goes on, and its link is given what it is subscribed to. See :meth:`IRegistry.leave_session`.
        """

    def resume(session_id: str, link: ISessionLink) -> None:
        """A persistent session of an earlier boot is reached by ``link`` from now on."""

    def close(session_id: str, reason: str, traffic: Traffic) -> None:
        """End a session, after it was sent its collected frames.

        :param traffic: the counts of its objects and bytes, for the journal.
        """

    def link_of(session_id: str) -> ISessionLink | None:
        """The link to the client of a session; ``None``: it is closed, or belongs to another server."""


class IRouting(Interface):
    """Routes objects and publications of this server's own clients to all sessions that want them."""

    def route(session_id: str, obj: BusObject) -> int:
        """Route an object that a member sent, or a session that takes part in exchanges (:class:`IExchanges`).

        :returns: how many other sessions are given it; 0 if it asks for something and none of them may answer.

        :raises OverLimit: it is a request, and too many are open.
        :raises NotAllowed: the session may not send it.
        :raises Refused: ``no-such-service``: it is a request to a service that the session may not know of.
        """

    def route_batch(session_id: str, batch: Iterator[BusObject]) -> BusObject | None:
        """Route objects as :meth:`route` does, up to one that has to be routed by itself.

        :param batch: objects that are not commands to the server.
        :returns: that object, taken from ``batch``; ``None``: continue with the rest, if the session is within limits.
        """

    def publish_many(session_id: str, publications: Sequence[Publication]) -> None:
        """Deliver publications as :meth:`publish` does. They differ in nothing but their payloads; none is empty."""

    def route_exchanges(session_id: str, data: bytes, limits: tuple[int, int, int]) -> tuple[int, int]:
        """Route plain requests and replies as :meth:`route` does: those at the beginning of a chunk of a member.

        :param limits: see :class:`bussrv.wire.objects.ObjectReader`.
        :returns: the place after them, and how many they are; ``(0, 0)`` without the compiled module.
        """

    def publish(session_id: str, publication: Publication) -> None:
        """Deliver a publication to all sessions that want it, in every wire format."""

    def takes_requests(session_id: str, service: str) -> bool:
        """Whether some provider of a service takes requests, as far as a session may know.

        Clients that publish under a lease provide services, too, and take none.
        """

    def register_all(session_id: str, *, registers_all: bool) -> None:
        """A member says whether it registers every service that it serves. If so, it is not waited for when a request
        is for a service that nobody registered.
        """

    def hear_gaps(session_id: str, *, hears_gaps: bool) -> None:
        """A member says whether it is to be told when objects of other servers were lost on their way."""

    def last(service: str, permissions: Permissions) -> bytes:
        """The first payload for a new subscriber: the last one published, or the snapshot of a hosted service.

        :param permissions: those of the subscriber: it is shown what it may know of.
        :raises Refused: ``internal-error``: the hosted service failed. That is counted and logged.
        """


class IExchanges(Interface):
    """Requests and replies of sessions with filters (:class:`IFilteringLink`), which are no members.

    Such a session sends requests, replies and errors by :meth:`IRouting.route`. Whatever is for it alone comes to it as
    a publication, if it is subscribed to the service of that and may watch it.
    """

    def begin(session_id: str, as_publication: AsPublication) -> None:
        """A session asks or answers from now on.

        :param as_publication: makes the publications that it is given.
        """

    def answer(session_id: str, service: str) -> None:
        """A session answers requests for a service while it provides it and is subscribed to it by its name.

        When the subscription ends, the service does, too. To be called after it has subscribed, and before it registers
        the service.
        """

    def stop_answering(session_id: str, service: str) -> None:
        """A session answers no more requests for a service. So it is if the session provides it no longer."""

    def answered_by(session_id: str) -> frozenset[str]:
        """The services that a session answers requests for, or is about to."""

    def answers(session_id: str, service: str) -> bool:
        """Whether a session answers requests for a service."""

    def is_subscribed(session_id: str, service: str) -> bool:
        """Whether a session would be given publications on a service."""

    def publish_to(session_id: str, publication: Publication) -> bool:
        """Give one session a publication, and nobody else. :returns: whether it is given it."""


class IPermissions(Interface):
    """The permissions of sessions, where their wire formats serve what they ask for."""

    def may(session_id: str, action: Action, target: str) -> bool:
        """Whether a session may do something. If it may not, that is counted, and journaled at a limited rate."""

    def may_share(session_id: str) -> Callable[[str], bool]:
        """Says of further routing ids that others have whether a session may have them, too.

        What is denied is counted and journaled as by :meth:`may`. To be asked while one subscription is judged.
        """

    def policy_changed() -> Deferred[Withdrawn]:
        """The policy is another one from now on. Sessions lose what they may not have any more.

        :returns: fires when every session was judged.
        """


class IForwarding(Interface):
    """Objects that a linked server forwards, and its advertisements. Sessions are those of links that are up."""

    def forward(session_id: str, obj: BusObject) -> Deferred[None] | None:
        """Forward an object, unless it came before over another link.

        The sender may be known only from an advertisement before the object. So the object waits until all earlier
        advertisements are in the registry.

        :returns: fires when it is forwarded; ``None``: it is forwarded already.

        :raises Refused: ``bad-attribute``: its ``route`` is not an array of strings.
        """

    def forward_batch(session_id: str, batch: Iterator[BusObject]) -> BusObject | None:
        """Forward objects, up to one that is addressed, has to wait, or may be for this server.

        :returns: that object, taken from ``batch``; ``None`` at its end.
        """

    def receive_advertisement(session_id: str, obj: BusObject) -> None:
        """Take an advertisement of a session: an event of :mod:`bussrv.bus.links.advertisement_fields`.

        :raises Refused: ``bad-attribute``, ``bad-service-name``, ``reserved-name`` or ``link-full``.
        """

    def receive_gap(session_id: str, fields: dict[str, Any]) -> None:
        """Objects were lost on their way here; see :mod:`bussrv.bus.links.gaps`.

        :raises Refused: ``bad-attribute`` or ``bad-service-name``.
        """

    def route_of(session_id: str, obj: BusObject) -> list[str]:
        """The servers and the session that an object passed, the server at the other end of the link last.

        :raises Refused: ``bad-attribute``.
        """


class IHosting(Interface):
    """Services of the server itself, and what it shows of itself."""

    def host(service: str, hosted: Hosted) -> None:
        """Declare a service that the server itself provides."""

    def service_names() -> list[str]:
        """The names of all services, sorted. A change makes a new list, so the old one may be kept."""

    def visible_names(permissions: Permissions) -> Iterator[list[str] | None]:
        """The names of the services that a session with these permissions may know, sorted.

        :returns: steps, because the others have to be sorted out. All of them except the last are ``None``.
        """

    def ready(service: object, permissions: Permissions) -> Deferred[None] | None:
        """Make the next call of ``last`` take little time, for a hosted service with much to show.

        :returns: fires when it does; ``None``: it does.
        """

    def hosted_type(service: object) -> str | None:
        """The content type of a service of the server itself; ``None`` for every other name."""

    def has_subscribers(service: str) -> bool:
        """Whether a session is subscribed to a service, in any wire format. No policy is asked."""

    def update(service: str, payloads: Callable[[Permissions], Iterable[bytes]]) -> None:
        """Send an update to the subscribers of a service of the server itself.

        :param payloads: those for subscribers with some permissions.
        """

    def report(name: str, make: Callable[[], object]) -> None:
        """Show under ``name`` in ``bus/statistics`` what ``make`` returns: anything that JSON can represent."""

    def reports() -> dict[str, object]:
        """All reports by name, as they are now."""


class ITopicSource(Interface):
    """The publications of some topics of the server itself."""

    def retained(wanted: str, permissions: Permissions) -> Iterator[Publication | None]:
        """Those that a session with some permissions may see, of the topics that a name or a pattern covers.

        :returns: steps, between which others are served; a step may bring nothing, ``None``.
        """


class IOwnTopics(Interface):
    """The topics on which the server itself retains something."""

    def add(source: ITopicSource) -> None:
        """Ask ``source``, too, from now on."""

    def retained(wanted: str, permissions: Permissions) -> Iterator[Publication | None]:
        """What is retained for a new subscriber, in steps; see :class:`ITopicSource`."""

    def audience(topic: str) -> frozenset[Permissions]:
        """The permissions of those who are subscribed to a topic and may watch it."""

    def give(topic: str, publications: Mapping[Permissions, Publication]) -> None:
        """Give those who are subscribed to a topic the publication for their permissions, if there is one."""

    def give_to(session_id: str, publication: Publication) -> None:
        """Give one session with filters a publication, also if it may not watch its topic any more."""


class ISending(Interface):
    """Sends messages of the server itself to sessions."""

    def announce(event: str, fields: Shown, vocabulary: str | None, about: str) -> None:
        """Send an event of the server itself to the members with one vocabulary, at the end of the reactor turn.

        :param fields: its further metadata, as members with some permissions see it; ``None``: they do not get it.
        :param about: the id of the session that the event is about. It does not get the event.
        """

    def tell(session_id: str, fields: dict[str, Any]) -> None:
        """Send an event of the server itself to one session, even if its subscription does not want such events."""

    def send(session_id: str, frames: Sequence[bytes]) -> None:
        """Send one session frames of its wire format, after what was collected for it."""

    is_behind: bool = Attribute("Whether what was routed and published is still being sent, because it is for many.")

    def flush(since: float = NEVER) -> bool:
        """Send what was routed and published; to be called at the end of each chunk of input.

        Frames for many sessions of different groups are sent in slices.

        :param since: when the input arrived, in seconds of the reactor.
        :returns: whether all of it is sent.
        """

    def caught_up() -> Deferred[None]:
        """Fires when everything is sent that was routed and published, while :attr:`is_behind`."""

    def back_pressure() -> Deferred[None] | None:
        """To be asked after input of a session was served and flushed, while :attr:`is_behind`.

        :returns: fires when its later input may be served: others still wait for what it sent. ``None``: now.
        """

    def flush_soon(session_id: str, size: int, since: float = NEVER) -> float:
        """Send the collected frames of a chunk of ``size`` bytes: once a reactor turn, if several sessions send.

        :returns: see :meth:`bussrv.bus.flush_schedule.FlushSchedule.flush_soon`.
        """

    def poll_begins() -> None:
        """Connections of a port are about to be read, one after the other, in one call of the reactor."""

    def poll_ends() -> None:
        """They have been read; to be called after each :meth:`poll_begins`, whatever happened."""


class ILinks(Interface):
    """The links to other servers that are up."""

    paths: Paths = Attribute("The :class:`bussrv.bus.links.paths.Paths`: the sessions that other servers advertised.")
    token: Callable[[], str] | None = Attribute("Returns what this server shows those that dial it; ``None``: nothing.")

    def use_token(token: Callable[[], str] | None) -> Callable[[], str] | None:
        """Show this to servers that dial this one from now on. :returns: what was shown before."""

    def admitted(session_id: str, server_id: str, *, dialed: bool) -> AbstractAsyncContextManager[None]:
        """Make the routing id of a server that wants to link free for it: an older link to it ends.

        If both servers dialed, both keep the link that was dialed by the one with the lesser routing id. The link is
        made inside of the context, one at a time to each server. :class:`bussrv.errors.Refused` there says that it
        failed: remote sessions may have the routing id again.

        :param session_id: the session of the connection that the link is to use.
        :raises bussrv.errors.Refused: ``duplicate-link``, ``routing-id-taken``, ``too-many-links`` or
            ``session-closed``.
        """

    def up(
        session_id: str,
        link: ISessionLink,
        interest: Interest,
        *,
        tells_all: bool,
        dialed: bool,
        asks_interest: bool = False,
        takes_names: bool = False,
    ) -> None:
        """A link is up. It is down when its session closes.

        :param link: sends to the other server.
        :param interest: the objects that the other server wants.
        :param tells_all: whether the other server advertises every session that it can reach.
        :param asks_interest: whether it is to be told what is wanted of the objects that are for everybody.
        :param takes_names: whether services may be advertised to it several at once.
        """

    def receive_interest(session_id: str, fields: dict[str, Any]) -> None:
        """A linked server says what it wants; see :mod:`bussrv.bus.links.interest_fields`.

        :raises bussrv.errors.Refused: ``bad-attribute``, ``bad-service-name`` or ``link-interest-full``.
        """

    def lost(server_id: str) -> Deferred[None]:
        """:returns: fires when there is no link to that server."""

    def all() -> Sequence[LinkFacts]:
        """The links that are up."""

    def missing() -> Sequence[LostLink]:
        """The links that were lost, and those that are expected and were never up."""

    def forget(server_id: str) -> bool:
        """A lost link is not missed any more. :returns: whether there was one."""

    def release(server_id: str) -> None:
        """Dial that server no more, so its link is not missed."""

    def neighbors() -> list[str]:
        """The routing ids of the servers that this one is linked with."""

    def room() -> Deferred[None] | None:
        """Fires when there is room for further advertisements; ``None``: there is."""


class ITaps(Interface):
    """Taps: operators that see some of the objects that pass."""

    def open(wanted: TapFilter, *, actor: str | None, peer: str, protocol: str, most: int) -> Tap:
        """Open a tap for a user.

        :param actor: the user, if it is known; ``peer`` is its address, ``protocol`` what the policy calls its way in.
        :param most: the most bytes that may wait for it.
        :returns: a :class:`bussrv.bus.taps.tap.Tap`.
        """

    def close(tap: Tap) -> None:
        """End a tap."""


class ICompiledRouting(Interface):
    """Routes most objects of members, or of linked servers, without reading them one by one."""

    def route_input(session_id: str, reader: ObjectReader) -> ScanResult | None:
        """Route objects as :meth:`IRouting.route_batch` or :meth:`IForwarding.forward_batch` does, and skip them in the
        reader.

        :returns: the outcome; ``None``: nothing was tried.
        """

    def route_chunk(session_id: str, reader: ObjectReader, data: bytes, has_rest: bool) -> tuple[int, int, bool] | None:
        """Route the objects at the beginning of a chunk of a member, and give the rest to its reader, which is clear.

        :param has_rest: whether the reader may hold the beginning of an object.
        :returns: how many objects, the verdict, and whether there is a rest; ``None``: nothing was done, because
            something has changed, or was not tried before. See :class:`bussrv.bus.routing.compiled_result.ScanResult`.
        """


class Withdrawn(Struct):
    """How much a new policy, or new users, took away: whole sessions, and single services and subscriptions."""

    sessions: int = 0
    services: int = 0
    subscriptions: int = 0


class Effects(NamedTuple):
    """The effects of a file that was read again.

    :ivar words: a few words for each thing that is another one now.
    :ivar withdrawn: fires with what was taken away because of it.
    """

    words: tuple[str, ...] = ()
    withdrawn: Deferred[Withdrawn] | None = None


Use = Callable[[], Effects | None]
"""Puts into effect what was read again, and cannot fail. ``None``: nothing is different, except values of options."""


class IReloadable(Interface):
    """Something that was read from files, and can be read again while the server runs."""

    name: str = Attribute("``str``: what errors and the log call it.")

    def prepare() -> Use:
        """Read and check all of it. Nothing changes yet.

        :returns: puts it into effect; cannot fail. It is called when :attr:`IBus.settings` has its new values.
        :raises bussrv.errors.ConfigError: names the file and what is wrong with it.
        """


class IBus(ISessions, IRouting, IPermissions, IForwarding, IHosting, ISending):
    """Everything that a wire format works with."""

    registry: IRegistry = Attribute("The :class:`IRegistry`.")
    settings: Settings = Attribute("The :class:`bussrv.settings.Settings`.")
    counters: Counter[str] = Attribute("``collections.Counter``: what was dropped, refused or odd, by stable code.")
    server_id: str = Attribute("``str``: the routing id of this server.")
    access: Access = Attribute("The :class:`bussrv.policy.permissions.access.Access`: what each session may do.")
    identity: IIdentity = Attribute("The :class:`IIdentity`: decides who clients are.")
    permission_observers: list[Callable[[str], None]] = Attribute(
        "``list``: each is called with the id of a session that has other permissions from now on."
    )
    announcements: Announcements = Attribute(
        "The :class:`bussrv.bus.services.announcements.Announcements`: services whose providers want them announced."
    )
    exchanges: IExchanges = Attribute("The :class:`IExchanges`.")
    links: ILinks = Attribute("The :class:`ILinks`.")
    link_clocks: LinkClocks = Attribute("The :class:`bussrv.bus.link_clocks.LinkClocks` of linked servers.")
    slices: Slices = Attribute(
        "The :class:`bussrv.turns.slices.Slices`: whatever may take long is done a slice at a time."
    )
    reloadables: list[IReloadable] = Attribute("``list``: what is read again when the server reads its files again.")
    compiled_router: ICompiledRouting = Attribute(
        "The :class:`ICompiledRouting`: routes objects of members without reading each of them."
    )
    compiled_forwarder: ICompiledRouting = Attribute("The :class:`ICompiledRouting` for objects of linked servers.")
    retained: Retained = Attribute("The :class:`bussrv.bus.services.retained.Retained` publications.")
    own_topics: IOwnTopics = Attribute("The :class:`IOwnTopics`: those on which the server itself retains something.")
    queued: dict[str, Callable[[], int]] = Attribute(
        "``dict``: for each durable session, what counts the messages that wait for it in the spool."
    )
    spool: ISpool = Attribute("The :class:`ISpool`: what wire formats keep beyond connections.")
    taps: ITaps = Attribute("The :class:`ITaps`: operators that see what passes.")
    streams: ConnectionResources = Attribute(
        "The :class:`bussrv.memory.resources.ConnectionResources`: what stream connections share."
    )

    totals: Totals = Attribute("The :class:`bussrv.bus.sessions.totals.Totals` of what sessions sent and received.")
    service_traffic: ServiceTraffic = Attribute("Counts publications by service, for whoever takes the counts.")
    delivery: Histogram = Attribute(
        "The :class:`Histogram` of times from input to output, as ``FlushSchedule`` has it."
    )

    def utc() -> int:
        """The present time, UTC microseconds."""
