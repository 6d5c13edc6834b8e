"""The vocabulary of registry events: one schema for the registry, the journal and the audit.

Each class is one event; the class docstring says when it is written. Fields that do not apply are left out on disk. The
fields that every record has (``v``, ``seq``, ``time``, ``mono``, ``server``, ``boot``, ``outcome``) belong to
:mod:`bussrv.journal.record`.

``session.closed`` ends the session's subscriptions with it; what the session provided is unregistered by records of
its own right before, because that is announced.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

from msgspec import Struct

from bussrv.errors import OverLimit
from bussrv.values import InEffect, Interest

Outcome = Literal["ok", "refused", "failed"]


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """Fields that every registry event may have.

    :ivar protocol: the wire format.
    :ivar session: the id of the session it is about.
    :ivar routing_id: the routing id of the session.
    :ivar actor: the user that the session proved to be.
    :ivar claimed: the name that the session claims, or tried to prove; it is not checked.
    :ivar peer: the address of the other side, ``host:port`` or an IP address.
    :ivar service: the name of the service it is about.
    :ivar reason: a stable code of :data:`bussrv.errors.REASONS`.
    :ivar suppressed: how many events of this kind by this peer's address were left out since the last one written;
        also those of others that were left out because all together caused too many.
    """

    OUTCOME: ClassVar[Outcome] = "ok"

    protocol: str | None = None
    session: str | None = None
    routing_id: str | None = None
    actor: str | None = None
    claimed: str | None = None
    peer: str | None = None
    service: str | None = None
    reason: str | None = None
    suppressed: int | None = None


class ServerStarted(Event, frozen=True, tag="server.started"):
    """A boot begins. ``formats`` maps each wire format that is on to the address it listens on.

    ``in_effect`` has the policy and the limits. Records of schema versions before 4 have none: it is not known then.
    """

    version: str
    formats: dict[str, str] = {}
    in_effect: InEffect | None = None


class ServerStopped(Event, frozen=True, tag="server.stopped"):
    """The server stopped in an orderly way; the last record of a boot."""


class ServerRecovered(Event, frozen=True, tag="server.recovered"):
    """The previous boot did not end with ``server.stopped``.

    ``sessions_closed`` sessions were left open and are closed by the records that follow; ``torn_bytes`` of an
    unfinished record were set aside.
    """

    sessions_closed: int
    torn_bytes: int = 0


class SessionOpened(Event, frozen=True, tag="session.opened"):
    """A client is present. ``persistent`` sessions outlive a restart of the server: they have no connection, or are
    *durable*. A durable session outlives its connections; it ends ``expiry`` microseconds after it lost one. Its
    ``actor`` proved that before, in the session that the connection had first.

    ``home`` is the routing id of the server that a *far* session belongs to: a session of another server, known here
    over a link. Its traffic is counted there.
    """

    persistent: bool = False
    expiry: int | None = None
    home: str | None = None


class SessionLeft(Event, frozen=True, tag="session.left"):
    """A durable session has no connection any more, for ``reason``, and provides nothing. Its subscriptions stay.

    It ends at ``until``, UTC microseconds, unless its client comes back before.
    """

    until: int


class SessionResumed(Event, frozen=True, tag="session.resumed"):
    """The client of a durable session is back, at ``peer``. ``expiry`` is as in ``session.opened``."""

    expiry: int


class SessionIdentified(Event, frozen=True, tag="session.identified"):
    """A session said who it is: its routing ids, user (``claimed``), program name, role and vocabulary."""

    routing_ids: tuple[str, ...] = ()
    name: str | None = None
    role: str | None = None
    vocabulary: str | None = None


class SessionClosed(Event, frozen=True, tag="session.closed"):
    """A session ended, for ``reason``. Written exactly once for every session whose opening was written.

    ``duration`` is in microseconds; the counters are objects (messages) and bytes.
    """

    duration: int
    objects_in: int = 0
    objects_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class ServiceRegistered(Event, frozen=True, tag="service.registered"):
    """A session provides a service from now on."""


class ServiceUnregistered(Event, frozen=True, tag="service.unregistered"):
    """A session provides a service no longer."""


class ServiceRefused(Event, frozen=True, tag="service.refused"):
    """A session asked to provide a service, or to stop, and was refused for ``reason``."""

    OUTCOME = "refused"


class SubscriptionAdded(Event, frozen=True, tag="subscription.added"):
    """A session wants a service, or (members of the object network) what its ``interest`` lets pass.

    The interest of a far session is looked at by its own server, and not known here. ``options`` holds what the wire
    format needs to rebuild the subscription after a restart. With ``pattern`` the service is a pattern over names; see
    :mod:`bussrv.service_patterns`.
    """

    interest: Interest | None = None
    options: dict[str, Any] | None = None
    pattern: bool = False


class SubscriptionRemoved(Event, frozen=True, tag="subscription.removed"):
    """A subscription ended; its session did not."""


class SubscriptionRenewed(Event, frozen=True, tag="subscription.renewed"):
    """A subscription with a lease was renewed."""

    options: dict[str, Any] | None = None


class SubscriptionRefused(Event, frozen=True, tag="subscription.refused"):
    """A subscription, or its end, was refused for ``reason``."""

    OUTCOME = "refused"


class AuthSucceeded(Event, frozen=True, tag="auth.succeeded"):
    """A session proved that it is ``actor``, by ``method``, such as ``password``.

    Records of schema version 2 have no method.
    """

    method: str | None = None


class AuthFailed(Event, frozen=True, tag="auth.failed"):
    """A session did not prove that it is ``claimed``, by ``method``."""

    OUTCOME = "failed"

    method: str | None = None


class AccessDenied(Event, frozen=True, tag="access.denied"):
    """A session was not allowed an ``action`` on a ``target``, by ``rule``; see
    :mod:`bussrv.policy.permissions.permissions`.
    """

    OUTCOME = "refused"

    action: str
    target: str
    rule: str


class AccessUsed(Event, frozen=True, tag="access.used"):
    """In the last hour, sessions of a user did an ``action`` on a ``target``, over one wire format.

    The server judged it ``count`` times. It remembers many answers, so there were at least as many objects. ``peer`` is
    the address of the first session that did it. ``suppressed`` counts further ones that were left out.
    """

    action: str
    target: str
    count: int


class LimitReached(Event, frozen=True, tag="limit.reached"):
    """A limit was hit: ``limit`` is its option, ``value`` what it is set to."""

    OUTCOME = "refused"

    limit: str
    value: int


class LinkUp(Event, frozen=True, tag="link.up"):
    """A link to another server, whose routing id is ``routing_id``, stands."""


class LinkDown(Event, frozen=True, tag="link.down"):
    """A link to another server is lost. Later records close the sessions that were known over it alone."""

    OUTCOME = "failed"


class LinkGap(Event, frozen=True, tag="link.gap"):
    """A linked server, ``routing_id``, says that objects of the server ``origin`` were lost on their way here.

    ``lost`` is their number, if that is known. They were publications on ``service``, if it names one.
    """

    OUTCOME = "failed"

    origin: str
    lost: int | None = None


class LinkForgotten(Event, frozen=True, tag="link.forgotten"):
    """The link to the server ``routing_id`` is not missed any more, since an operator removed or forgot it."""


class LinkClock(Event, frozen=True, tag="link.clock"):
    """The clock of a linked server, ``routing_id``, differs by so much that it is an incident, or no longer does.

    It is ``ahead`` microseconds ahead, less than 0 if it is behind, give or take ``doubt``.
    """

    ahead: int
    doubt: int


class ConfigReloaded(Event, frozen=True, tag="config.reloaded"):
    """The configuration was read again, and is in effect. ``changed`` has the names of the options that changed.

    ``in_effect`` is as in ``server.started``.
    """

    changed: tuple[str, ...] = ()
    in_effect: InEffect | None = None


class ConfigReloadFailed(Event, frozen=True, tag="config.reload-failed"):
    """The configuration was read again, and cannot be used: nothing changed. ``message`` says why."""

    OUTCOME = "failed"

    message: str


class AdminAction(Event, frozen=True, tag="admin.action"):
    """An operator does something through the admin interface: written before it is done.

    ``actor`` is the user, or ``admin-token`` for whoever has the token of the admin token file. ``action`` is what is
    done, such as ``close-session``, and ``target`` what it is done to.
    """

    action: str
    target: str | None = None


class IncidentAcknowledged(Event, frozen=True, tag="incident.acknowledged"):
    """An operator, ``actor``, has taken note of an ``incident`` that the admin interface shows, or says a ``note``.

    ``kind`` is its kind, and ``since`` the time at which it began, UTC microseconds.
    """

    incident: str
    kind: str
    since: int
    note: str | None = None


class JournalDegraded(Event, frozen=True, tag="journal.degraded"):
    """The journal could not be written. ``message`` is what the system said."""

    OUTCOME = "failed"

    message: str


class JournalRestored(Event, frozen=True, tag="journal.restored"):
    """The journal can be written again; ``refused`` changes were refused meanwhile."""

    refused: int


class JournalSalvaged(Event, frozen=True, tag="journal.salvaged"):
    """The journal was found damaged. A new chain begins after the damage.

    ``message`` says what was found at ``line`` of ``segment``. What was there of the registry is what could be read.
    """

    OUTCOME = "failed"

    segment: int
    line: int
    message: str


class JournalPruned(Event, frozen=True, tag="journal.pruned"):
    """A segment is removed since it is older, or the journal larger, than it is to be kept.

    ``bytes`` and ``digest`` are those of its seal, ``last_seq`` is its last record.
    """

    segment: int
    last_seq: int
    bytes: int
    digest: str


class SealWitnessed(Event, frozen=True, tag="seal.witnessed"):
    """A ``witness`` cosigned the checkpoint of a seal: so many records are in its tree, ``size``."""

    witness: str
    size: int


class SealRefused(Event, frozen=True, tag="seal.refused"):
    """A ``witness`` does not cosign the checkpoint of a seal, whose tree has ``size`` records. ``message`` says why: it
    refuses, or it cannot be asked for an hour or more.
    """

    OUTCOME = "refused"

    witness: str
    size: int
    message: str


def limit_reached(refusal: OverLimit, **about: Any) -> LimitReached:
    """The event of a refusal that a limit is the reason of.

    :param about: whom it hit, in the fields of :class:`Event`.
    """
    return LimitReached(limit=refusal.limit, value=refusal.value, reason=refusal.reason, **about)


AnyEvent = (
    ServerStarted
    | ServerStopped
    | ServerRecovered
    | SessionOpened
    | SessionLeft
    | SessionResumed
    | SessionIdentified
    | SessionClosed
    | ServiceRegistered
    | ServiceUnregistered
    | ServiceRefused
    | SubscriptionAdded
    | SubscriptionRemoved
    | SubscriptionRenewed
    | SubscriptionRefused
    | AuthSucceeded
    | AuthFailed
    | AccessDenied
    | AccessUsed
    | LimitReached
    | LinkUp
    | LinkDown
    | LinkGap
    | LinkForgotten
    | LinkClock
    | ConfigReloaded
    | ConfigReloadFailed
    | AdminAction
    | IncidentAcknowledged
    | JournalDegraded
    | JournalRestored
    | JournalSalvaged
    | JournalPruned
    | SealWitnessed
    | SealRefused
)

EVENT_CLASSES: tuple[type[Event], ...] = get_args(AnyEvent)


def event_name(event: Event | type[Event]) -> str:
    """The name of an event as it stands in the journal, such as ``session.opened``."""
    return str(event.__struct_config__.tag)


EVENTS_BY_NAME: dict[str, type[Event]] = {event_name(each): each for each in EVENT_CLASSES}
