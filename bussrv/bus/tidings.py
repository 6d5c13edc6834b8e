"""What linked servers tell each other of the sessions they can reach, both ways. Pure.

The words are those of Object System (seed 002); ``route`` is the path, the server that a session belongs to first, and
for services the provider before that. Attributes in brackets may be left out::

    routing/subscribe/notify         routing-id routing-ids [role] [protocol] [directory] route    there is a member, or
    routing/subscribe/notification   the same, in the deployed dialect                             its path changed
    routing/disconnect               routing-id [session] [left] route                            it is gone
    services/register                name [routing-id] [protocol] route                           it provides this
    services/unregister              [name] [routing-id] route                                    no longer; or nothing

``session`` is the id that the home of a session has given it, in all of them; ``left`` is true when the session has
ended, and not only cannot be reached this way any more. ``directory`` is true for servers that tell of all sessions
they can reach. Other servers leave out what they do not have; a path that does not end with the neighbour who told of
it is taken to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from bussrv.bus.paths import Far
from bussrv.errors import Refused
from bussrv.values import RESERVED_PREFIX, check_routing_id, check_service_name

NOTIFY = ("routing/subscribe/notify", "routing/subscribe/notification")
DISCONNECT = "routing/disconnect"
REGISTER = "services/register"
UNREGISTER = "services/unregister"

MAX_SESSION_ID = 64

_LEFT = {"left": True}

TIDINGS = (*NOTIFY, DISCONNECT, REGISTER, UNREGISTER)
"""The events that tell of sessions, where a server says them to a server."""


def tell(before: Far | None, now: Far | None, notify: str, *, is_over: bool = False) -> Iterator[dict[str, Any]]:
    """The events that say what is known of a session now, to one who was told ``before``.

    :param notify: the word for a member: one of ``NOTIFY``.
    :param is_over: whether the session of ``before`` has ended; otherwise it may be reached in another way.
    """
    if now is None:
        if before is not None:
            yield from ({**event, **_LEFT} if is_over else event for event in _gone(before))
        return
    if before is not None and before.is_member and not now.is_member:
        yield from _gone(before)
        before = None
    moved = before is None or (before.path, before.protocol) != (now.path, now.protocol)
    told = before.services if before is not None else frozenset()
    if now.is_member and (moved or before is None or replace(before, services=now.services) != now):
        yield _member(now, notify)
    for name in sorted(told - now.services):
        yield _service(UNREGISTER, now, name)
    for name in sorted(now.services if moved else now.services - told):
        yield _service(REGISTER, now, name)


def _gone(far: Far) -> Iterator[dict[str, Any]]:
    if far.is_member:
        yield {"event": DISCONNECT, "routing-id": far.routing_id, **_session(far), "route": list(far.path)}
    else:
        yield _service(UNREGISTER, far, None)


def _member(far: Far, notify: str) -> dict[str, Any]:
    fields = {
        "event": notify,
        "routing-id": far.routing_id,
        "routing-ids": list(far.routing_ids),
        "role": far.role,
        "protocol": far.protocol,
        "session": far.session,
        "directory": far.tells_all or None,
        "route": list(far.path),
    }
    return {key: value for key, value in fields.items() if value is not None}


def _service(event: str, far: Far, name: str | None) -> dict[str, Any]:
    named = {} if name is None else {"name": name}
    about = {"routing-id": far.routing_id, "protocol": far.protocol, **_session(far)}
    return {"event": event, **named, **about, "route": [far.routing_id, *far.path]}


def _session(far: Far) -> dict[str, str]:
    return {} if far.session is None else {"session": far.session}


def ended(fields: dict[str, Any]) -> str | None:
    """The id of the session that has ended, where an event says that one has."""
    session = _session_of(fields)
    is_end = fields["event"] == DISCONNECT or (fields["event"] == UNREGISTER and "name" not in fields)
    return session if is_end and fields.get("left") is True else None


def subject(fields: dict[str, Any], route: list[str], neighbour: str) -> str:
    """The routing id of the session that an event tells of.

    :raises Refused: ``bad-attribute``.
    """
    named = fields.get("routing-id")
    if named is None and fields["event"] in (REGISTER, UNREGISTER):
        named = route[0] if route else neighbour
    (checked,) = _checked([named], "routing-id")
    return checked


def learn(
    before: Far | None, fields: dict[str, Any], routing_id: str, path: tuple[str, ...], max_routing_ids: int
) -> Far | None:
    """What is known of a session once its neighbour told this of it.

    :param before: what that neighbour told before.
    :param path: as :func:`path_of` has it.
    :param max_routing_ids: the most further routing ids that it may have.
    :raises Refused: ``bad-attribute``, ``bad-service-name`` or ``reserved-name``.
    """
    event = fields["event"]
    if event == DISCONNECT:
        return None
    if event in NOTIFY:
        kept = before.services if before is not None else frozenset()
        return Far(
            routing_id=routing_id,
            path=path,
            is_member=True,
            routing_ids=_routing_ids(fields.get("routing-ids"), max_routing_ids),
            role="server" if fields.get("role") == "server" else None,
            protocol=_protocol(fields),
            session=_session_of(fields),
            tells_all=fields.get("directory") is True,
            services=kept,
        )
    if event == REGISTER:
        name = check_service_name(fields.get("name"))
        if name.startswith(RESERVED_PREFIX):
            raise Refused("reserved-name", f"{name!r} belongs to each server itself")
        known = before or Far(routing_id=routing_id, path=path)
        protocol = _protocol(fields) if "protocol" in fields else known.protocol
        session = _session_of(fields) or known.session
        return replace(known, path=path, protocol=protocol, session=session, services=known.services | {name})
    if before is None:
        return None
    left = before.services - {check_service_name(fields["name"])} if "name" in fields else frozenset()
    return replace(before, services=left) if left or before.is_member else None


def path_of(fields: dict[str, Any], route: list[str], routing_id: str, neighbour: str) -> tuple[str, ...]:
    """The servers that the word of a session passed, the neighbour who told of it last.

    The session itself may stand before them, as in the route of what it sends; but a server is the home of itself.

    :raises Refused: ``bad-attribute``.
    """
    is_server = fields.get("role") == "server" and fields["event"] in NOTIFY
    servers = route[1:] if route[:1] == [routing_id] and not is_server else route
    checked = _checked(servers, "each of route")
    return checked if checked[-1:] == (neighbour,) else (*checked, neighbour)


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
