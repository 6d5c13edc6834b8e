"""What a person calls a session, and which words find it. Pure, and light: a shell command shows it as well.

The first of these that there is:

1. the user that it proved to be,
2. the user, the program, or the routing id that its client chose, marked as claimed: nobody has checked them,
3. the services that it provides,
4. its address and its wire format,
5. the beginning of its routing id, or of its own id, which the server made up.

The dashboard has the same rule in ``names.js``; a test holds them equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from bussrv.patterns import Wildcards

if TYPE_CHECKING:
    from bussrv.registry.state.session import Session
    from bussrv.registry.state.state import RegistryState

CLAIMED = " (claimed)"
"""Follows a name that a client merely claims."""

MOST_CLAIMED = 30
"""The most characters of a claimed name before the mark."""

OWN_PROTOCOL = "bus"
"""The protocol of the server's own session."""

THE_SERVER = "the server"
"""The name of that session. It provides ``bus/clock`` and more, and nobody knows it by these."""

LEAST_CUT = 8
"""The characters that are left of an id that the server made up."""

MOST_PROVIDED = 20
"""The most services that are named of a session of the registry."""

_MADE_UP = re.compile(r"(?:mqtt-)?(?:[0-9a-f]{16,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)
_MQTT = "mqtt-"
_NUMBER = re.compile(r"([0-9]+)")


def called(who: object) -> str:
    """The name of a session for a person.

    :param who: a session, an item of the admin interface, or a record about one: a mapping, or an object with
        attributes. Fields that are missing are not known. ``called``: somebody who knew more has said it already.
    """
    get = _getter(who)
    peer, protocol = get("peer"), get("protocol")
    if protocol == OWN_PROTOCOL and not get("called"):
        return THE_SERVER
    place = f"{peer} over {protocol}" if peer and protocol else peer
    return named(who) or place or shortened(get("routing_id") or get("session") or "") or "a client"


def named(who: object) -> str | None:
    """The same, for a session with a name or services; ``None`` for another one."""
    get = _getter(who)
    if get("called") or get("actor"):
        return str(get("called") or get("actor"))
    routing_id = get("routing_id")
    chosen = None if not routing_id or is_made_up(routing_id) else routing_id
    claims = get("claimed") or get("name") or chosen
    if claims:
        # The mark must be in sight, however long a name a stranger chooses.
        return f"{claims if len(claims) <= MOST_CLAIMED else claims[: MOST_CLAIMED - 1] + '…'}{CLAIMED}"
    services = provided(get("provides") or get("services"))
    more = f" and {len(services) - 1} more" if len(services) > 1 else ""
    return f"provides {services[0]}{more}" if services else None


def provided(services: object) -> list[str]:
    """The names of services, in the order of people.

    :param services: names, or items with a ``service``; a number of them has no names.
    """
    if not isinstance(services, Sequence) or isinstance(services, str):
        return []
    names = (each if isinstance(each, str) else _getter(each)("service") for each in services)
    return sorted((each for each in names if each), key=natural)


def names_of(who: object) -> Iterator[str]:
    """Every word that finds a session: its names, services, addresses, wire format and ids."""
    get = _getter(who)
    fields = ("called", "actor", "claimed", "name", "routing_id", "session", "id", "service", "protocol", "home")
    yield from (str(value) for value in map(get, fields) if value)
    yield from get("routing_ids") or ()
    yield from provided(get("provides") or get("services"))
    peer = get("peer")
    if peer:
        yield from {peer, _host(peer)}


def is_made_up(routing_id: str) -> bool:
    """Whether nobody chose a routing id: the server makes up such ones for clients without one."""
    return _MADE_UP.fullmatch(routing_id) is not None


def shortened(made_up: str) -> str:
    """The beginning of an id that the server made up; another id as it is."""
    begin = len(_MQTT) if made_up.startswith(_MQTT) else 0
    return f"{made_up[: begin + LEAST_CUT]}…" if is_made_up(made_up) else made_up


def natural(text: str) -> tuple[object, ...]:
    """The key of a text in the order of people, for whom ``attic-4`` comes before ``attic-12``. Letter case counts
    last.
    """
    parts = _NUMBER.split(text.lower())
    numbers = [each.lstrip("0") for each in parts[1::2]]
    # A number of any length is compared without being read.
    keys = [*((len(each), each) for each in numbers), (-1, "")]
    return (*zip(parts[::2], keys, strict=True), text)


def is_called(who: object, wanted: str) -> bool:
    """Whether one of the words that find a session is the wanted one.

    :param wanted: ``*`` stands for any characters.
    """
    if "*" not in wanted:
        return wanted in names_of(who)
    match = Wildcards([wanted]).match
    return any(map(match, names_of(who)))


def first_provided(services: Iterable[str]) -> list[str]:
    """Some names of the services that a session provides, in the order of people."""
    return sorted(islice(services, MOST_PROVIDED), key=natural)


def called_in(state: RegistryState, session: Session) -> str:
    """What a person calls a session of the registry."""
    return called({**_names(session), "provides": first_provided(state.provided_by(session.id))})


def named_in(state: RegistryState, session_id: str) -> str | None:
    """What a person calls a session of the registry, if it is there, and has a name or services."""
    session = state.sessions.get(session_id)
    provides = first_provided(state.provided_by(session_id))
    return None if session is None else named({**_names(session), "provides": provides})


def is_called_in(state: RegistryState, session: Session, wanted: str) -> bool:
    """Whether a word finds a session of the registry; see :func:`is_called`. All its services count."""
    return is_called({**_names(session), "services": tuple(state.provided_by(session.id))}, wanted)


def _names(session: Session) -> dict[str, Any]:
    names = {"name": session.name, "home": session.home, "routing_ids": session.routing_ids}
    return {**session.about(), **names}


def _host(peer: str) -> str:
    host, _, port = peer.rpartition(":")
    return host.removeprefix("[").removesuffix("]") if host and port.isdigit() else peer


def _getter(who: object) -> Callable[[str], Any]:
    if isinstance(who, Mapping):
        return who.get
    return lambda name: getattr(who, name, None)
