"""Routing advertisements: events in which linked servers tell each other of the sessions they can reach. Pure.

The events are those of Object System (seed 002). ``route`` is the path: first the server that a session belongs to, or
for services the provider and then that server. Attributes in brackets may be left out::

    routing/subscribe/notify         routing-id routing-ids [role] [protocol] [answers] [directory] route
                                     there is a member, or its path changed
    routing/subscribe/notification   the same, in the deployed dialect
    routing/disconnect               [routing-id] [session] [left] route                          it is gone
    services/register                name [routing-id] [protocol] [answers] route                 it provides this
    services/unregister              [name] [routing-id] route                                    no longer; or nothing
    both                             names instead of name                                        several at once

``names`` is an array; only servers that understand it are told so. In all of them, ``session`` is the id that a session
has at its home. ``left`` is true if the session has ended; otherwise it may still be reached over another link.
``directory`` is true for servers that advertise all sessions they can reach. Of a member, ``answers`` is false if it
only observes: it does not answer requests for services that nobody registered. Of a service, ``answers`` is true if its
provider takes requests, though its wire format is one in which publishers provide services under a lease. Other servers
leave out attributes: without ``routing-id``, the first id of ``route`` is the session. A path ends with the neighbour
that sent the advertisement, even if its route does not.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from msgspec.structs import replace

from bussrv.bus.links.paths import RemoteSession
from bussrv.errors import Refused
from bussrv.registry.state.session import SERVER_ROLE
from bussrv.values import check_known_name, check_routing_id, check_service_name

NOTIFY = ("routing/subscribe/notify", "routing/subscribe/notification")
DISCONNECT = "routing/disconnect"
REGISTER = "services/register"
UNREGISTER = "services/unregister"

MAX_SESSION_ID = 64

NAMES = "names"
"""Servers that say so understand several services in one advertisement."""

FEWEST_NAMES = 3
"""Fewer services of a session are advertised one by one."""

MOST_NAMES = 64
"""The most services that one event advertises: as many as are journaled together. With the longest names, it is as
large as other servers take events for certain.
"""

_LEFT = {"left": True}

ADVERTISEMENTS = (*NOTIFY, DISCONNECT, REGISTER, UNREGISTER)
"""Events that are advertisements if a server sends them to a server."""


def events_between(
    before: RemoteSession | None,
    now: RemoteSession | None,
    notify: str,
    *,
    has_ended: bool = False,
    takes_names: bool = False,
) -> Iterator[dict[str, Any]]:
    """The advertisements of a session that has changed from ``before`` to ``now``.

    :param before: ``None``: it was not advertised yet.
    :param now: ``None``: it can no longer be reached from here.
    :param notify: the event for a member: one of ``NOTIFY``.
    :param has_ended: whether the session of ``before`` has ended; otherwise it may be reached over another link.
    :param takes_names: whether services may be advertised several at once.
    """
    if now is None:
        if before is not None:
            yield from ({**event, **_LEFT} if has_ended else event for event in _gone(before))
        return
    if before is not None and before.is_member and not now.is_member:
        yield from _gone(before)
        before = None
    moved = before is None or (before.path, before.protocol) != (now.path, now.protocol)
    advertised = before.services if before is not None else frozenset()
    if now.is_member and (moved or before is None or replace(before, services=now.services) != now):
        yield _member(now, notify)
    yield from _services(UNREGISTER, now, advertised - now.services, takes_names)
    answered = before.answered if before is not None else frozenset()
    anew = now.services if moved else now.services - (advertised - (answered ^ now.answered))
    yield from _services(REGISTER, now, anew & now.answered, takes_names)
    yield from _services(REGISTER, now, anew - now.answered, takes_names)


def _gone(remote: RemoteSession) -> Iterator[dict[str, Any]]:
    if remote.is_member:
        yield {"event": DISCONNECT, "routing-id": remote.routing_id, **_session(remote), "route": list(remote.path)}
    else:
        yield _service(UNREGISTER, remote, None)


def _member(remote: RemoteSession, notify: str) -> dict[str, Any]:
    fields = {
        "event": notify,
        "routing-id": remote.routing_id,
        "routing-ids": list(remote.routing_ids),
        "role": remote.role,
        "protocol": remote.protocol,
        "session": remote.session,
        "answers": None if remote.may_answer else False,
        "directory": remote.tells_all or None,
        "route": list(remote.path),
    }
    return {key: value for key, value in fields.items() if value is not None}


def _services(event: str, remote: RemoteSession, names: frozenset[str], takes_names: bool) -> Iterator[dict[str, Any]]:
    """Advertise services that are alike."""
    ordered = sorted(names)
    if not takes_names or len(ordered) < FEWEST_NAMES:
        for name in ordered:
            yield _service(event, remote, name)
        return
    for begin in range(0, len(ordered), MOST_NAMES):
        some = ordered[begin : begin + MOST_NAMES]
        about = _service(event, remote, some[0])
        del about["name"]
        yield {**about, "names": some}


def _service(event: str, remote: RemoteSession, name: str | None) -> dict[str, Any]:
    named: dict[str, Any] = {} if name is None else {"name": name}
    about = {"routing-id": remote.routing_id, "protocol": remote.protocol, **_session(remote)}
    if event == REGISTER and name in remote.answered:
        named["answers"] = True
    return {"event": event, **named, **about, "route": list(dict.fromkeys((remote.routing_id, *remote.path)))}


def _session(remote: RemoteSession) -> dict[str, str]:
    return {} if remote.session is None else {"session": remote.session}


def ended(fields: dict[str, Any]) -> str | None:
    """The id of the session that has ended, if an event says so."""
    session = _session_of(fields)
    is_named = "name" in fields or "names" in fields
    is_end = fields["event"] == DISCONNECT or (fields["event"] == UNREGISTER and not is_named)
    return session if is_end and fields.get("left") is True else None


def subject(fields: dict[str, Any], route: list[str], neighbour: str) -> str:
    """The routing id of the session that an event is about.

    :param route: its route. A neighbour that names no other session there means itself.
    :raises Refused: ``bad-attribute``.
    """
    named = fields.get("routing-id")
    if named is None and fields["event"] in (REGISTER, UNREGISTER):
        named = route[0] if route else neighbour
    if named is None and fields["event"] == DISCONNECT and route[:1] != [neighbour]:
        named = route[0] if route else None
    (checked,) = _checked([named], "routing-id")
    return checked


def learn(
    before: RemoteSession | None,
    fields: dict[str, Any],
    routing_id: str,
    path: tuple[str, ...],
    max_routing_ids: int,
    reserved: Container[str],
) -> RemoteSession | None:
    """The session after an advertisement; ``None`` if it can no longer be reached over this link.

    :param before: the session as that neighbour advertised it before.
    :param path: the path to the session; see :func:`path_of`.
    :param max_routing_ids: the most further routing ids that it may have.
    :param reserved: the names of services that it may not provide.
    :raises Refused: ``bad-attribute``, ``bad-service-name`` or ``reserved-name``.
    """
    event = fields["event"]
    if event == DISCONNECT:
        return None
    if event in NOTIFY:
        kept, answered = (before.services, before.answered) if before is not None else (frozenset(), frozenset())
        return RemoteSession(
            routing_id=routing_id,
            path=path,
            is_member=True,
            routing_ids=_routing_ids(fields.get("routing-ids"), max_routing_ids),
            role="server" if fields.get("role") == "server" else None,
            protocol=_protocol(fields),
            session=_session_of(fields),
            may_answer=fields.get("answers") is not False,
            tells_all=fields.get("directory") is True,
            services=kept,
            answered=answered,
        )
    if event == REGISTER:
        names = _new_names(fields, reserved)
        known = before or RemoteSession(routing_id=routing_id, path=path)
        protocol = _protocol(fields) if "protocol" in fields else known.protocol
        session = _session_of(fields) or known.session
        # The route of a server's own service begins with that server, and does not say it again as its home.
        passed = known.path if known.role == SERVER_ROLE else path
        answered = known.answered | names if fields.get("answers") is True else known.answered - names
        services = known.services | names
        return replace(known, path=passed, protocol=protocol, session=session, services=services, answered=answered)
    if before is None:
        return None
    left = before.services - _known_names(fields) if "name" in fields or "names" in fields else frozenset()
    return replace(before, services=left, answered=before.answered & left) if left or before.is_member else None


def _new_names(fields: dict[str, Any], reserved: Container[str]) -> frozenset[str]:
    """The services that a session provides from now on. Of several, those that belong to each server are left out."""
    if "names" in fields:
        return frozenset(each for each in map(check_service_name, _array(fields)) if each not in reserved)
    name = check_service_name(fields.get("name"))
    if name in reserved:
        raise Refused("reserved-name", f"{name!r} belongs to each server itself")
    return frozenset((name,))


def _known_names(fields: dict[str, Any]) -> frozenset[str]:
    return frozenset(map(check_known_name, _array(fields) if "names" in fields else (fields["name"],)))


def _array(fields: dict[str, Any]) -> list[Any]:
    names = fields["names"]
    if not isinstance(names, list) or not names:
        raise Refused("bad-attribute", "names is an array of names of services")
    return names


def path_of(fields: dict[str, Any], route: list[str], routing_id: str, neighbour: str) -> tuple[str, ...]:
    """The servers that an advertisement passed, the neighbour that sent it last.

    The session itself may come first, as in routes of objects; but a server is its own home.

    :raises Refused: ``bad-attribute``.
    """
    is_server = fields.get("role") == "server" and fields["event"] in NOTIFY
    servers = route[1:] if route[:1] == [routing_id] and not is_server else route
    passed = _checked(list(dict.fromkeys(servers)), "each of route")
    return passed[: passed.index(neighbour) + 1] if neighbour in passed else (*passed, neighbour)


def _routing_ids(value: Any, most: int) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(values, list) or len(values) > most:
        raise Refused("bad-attribute", f"routing-ids is an array of at most {most} strings")
    return _checked(values, "each of routing-ids")


def _checked(values: list[Any], name: str) -> tuple[str, ...]:
    try:
        return tuple(check_routing_id(each, name) for each in values)
    except Refused as refusal:
        raise Refused("bad-attribute", refusal.message) from None


def _session_of(fields: dict[str, Any]) -> str | None:
    session = fields.get("session")
    return session[:MAX_SESSION_ID] if isinstance(session, str) else None


def _protocol(fields: dict[str, Any]) -> str:
    protocol = fields.get("protocol")
    return protocol[:32] if isinstance(protocol, str) and protocol else "objects"
