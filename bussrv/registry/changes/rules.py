"""The rules of the registry. Each looks at a registry, and raises :class:`Refused` if it forbids a change. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from bussrv.errors import OverLimit, Refused
from bussrv.registry.state.event_fold import EventFold
from bussrv.registry.state.session import SERVER_ROLE, Session
from bussrv.values import RESERVED_PREFIX, check_service_name


def open_session(state: EventFold, session_id: str) -> Session:
    """The session of that id.

    :raises Refused: ``session-closed``.
    """
    session = state.session(session_id)
    if session is None:
        raise Refused("session-closed", "the session is closed")
    return session


def may_register(name: str, reserved: Container[str]) -> None:
    """Check that somebody may provide a service of that name.

    :param reserved: the names that it may not have.
    :raises Refused: ``bad-service-name`` or ``reserved-name``.
    """
    check_service_name(name)
    if name in reserved:
        raise Refused(
            "reserved-name",
            f"service names that begin with {RESERVED_PREFIX}, and those of services that the server itself provides, "
            "belong to the server, in any spelling",
        )


def may_be_named(name: Any, *known: Container[str | None]) -> None:
    """Check that a name is in one of ``known``, or may be the name of a new service.

    :raises Refused: ``bad-service-name``.
    """
    if not isinstance(name, str) or not any(name in each for each in known):
        check_service_name(name)


def may_have_more(count: int, most: int, reason: str, what: str, limit: str) -> None:
    """Check that a session that has ``count`` services, or subscriptions, may have one more.

    :raises OverLimit: for ``reason``.
    """
    if count >= most:
        raise OverLimit(reason, f"a session has at most {most} {what}", limit, most)


def may_be_more_services(count: int, most: int) -> None:
    """Check that the sessions of this server, which provide ``count`` services, may provide one more.

    :raises OverLimit: ``too-many-services-in-all``.
    """
    if count >= most:
        message = f"there are at most {most} services"
        raise OverLimit("too-many-services-in-all", message, "max-services-total", most)


def may_unregister(state: EventFold, session_id: str, name: str) -> None:
    """Check that a session provides the service that it unregisters.

    :raises Refused: ``not-registered``.
    """
    if not state.provides(session_id, name):
        raise Refused("not-registered", f"the service {name!r} is not registered by this session")


def may_unsubscribe(state: EventFold, session_id: str, name: str) -> None:
    """Check that a session has the subscription that it ends.

    :raises Refused: ``no-such-subscription``.
    """
    if state.subscription(session_id, name) is None:
        raise Refused("no-such-subscription", f"there is no subscription to {name!r}")


def grant_routing_id(
    state: EventFold,
    session: Session,
    wanted: str | None,
    is_kept: Callable[[Session, str, str | None], bool],
    role: str | None = None,
) -> str:
    """The routing id that a session gets: the one it wants if that is free, otherwise the one it has.

    A server gets its own even if it is a further routing id of another session.

    :param is_kept: whether a routing id is this server's own, or held for another client than that session.
    """
    if not wanted or wanted == session.routing_id:
        return session.routing_id
    is_shared = role != SERVER_ROLE and state.is_shared(wanted, session.id)
    if state.owner(wanted) is not None or is_shared or is_kept(session, wanted, role):
        return session.routing_id
    return wanted


def grant_routing_ids(
    state: EventFold,
    session: Session,
    wanted: tuple[str, ...],
    is_kept: Callable[[Session, str, str | None], bool],
    may_share: Callable[[str], bool],
) -> tuple[str, ...]:
    """The further routing ids that a session gets: each once, and none that is another's own or held for another.

    :param may_share: whether it may have one that others have as a further one, too. It keeps those that it has.
    """

    def is_granted(routing_id: str) -> bool:
        if not routing_id or state.owner(routing_id) not in (None, session.id) or is_kept(session, routing_id, None):
            return False
        is_new = routing_id not in session.routing_ids
        return not (is_new and state.is_shared(routing_id, session.id)) or may_share(routing_id)

    return tuple(filter(is_granted, dict.fromkeys(wanted)))


def renews_lease(state: EventFold, session_id: str, service: str) -> bool:
    """Whether a request to subscribe only renews a lease."""
    session = state.session(session_id)
    return session is not None and session.persistent and state.subscription(session_id, service) is not None
