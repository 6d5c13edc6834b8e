"""``bussrv services``, ``sessions``, ``links``, ``servers`` and ``who``: lists of the things that a server has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from bussrv.cli.asking import admin, existing, field, lists, moment, queued, show_all, show_list
from bussrv.cli.asking import services as services_of
from bussrv.cli.command import command
from bussrv.cli.connection import ConnectionOptions, connects
from bussrv.cli.failure import NO, Failure
from bussrv.cli.parameters import json_option
from bussrv.registry.state.naming import called
from bussrv.terminal import cleaned

NOT_SHOWN = " (members of the object network that receive everything, such as bussrv sub, are not shown)"


@command(
    examples=("bussrv services", "bussrv services --where service='hall/*' --sort -subscribers --json"),
    statuses={0: "done"},
)
@connects
@lists
def services(connection: ConnectionOptions, **how: Any) -> int:
    """List the services, each with the numbers and the wire formats of its providers and of its subscribers."""
    columns = {
        "SERVICE": field("service"),
        "PROVIDERS": field("providers"),
        "SUBSCRIBERS": field("subscribers"),
        "PROVIDED OVER": lambda each: (each.get("formats") or {}).get("providers"),
        "SUBSCRIBED OVER": lambda each: (each.get("formats") or {}).get("subscribers"),
    }
    less = ("SUBSCRIBED OVER", "PROVIDED OVER")
    return show_all(connection, "/services", columns, right=("PROVIDERS", "SUBSCRIBERS"), less=less, **how)


@command(
    examples=("bussrv sessions", "bussrv sessions --where 'called=hall*'", "bussrv sessions --sort -opened --limit 20"),
    statuses={0: "done"},
)
@connects
@lists
def sessions(connection: ConnectionOptions, query: dict[str, Any], **how: Any) -> int:
    """List the sessions, of this server and of linked ones. CLIENT is the user that the client proved to be, or what it
    claims to be, or what it provides, or its address. --where called=NAME finds sessions by all of these, and by their
    ids. AWAY is the time since the client of a durable session left, and QUEUED how many messages wait for it.
    bussrv session NAME shows one of them.
    """
    columns = {
        "CLIENT": called,
        "SESSION": field("session"),
        "FORMAT": field("protocol"),
        "SERVICES": services_of,
        "PEER": field("peer"),
        "AGE": moment("opened"),
        "AWAY": moment("away_since"),
        "QUEUED": queued,
        "HOME": field("home"),
        "SUBSCRIPTIONS": field("subscriptions"),
        "ROUTING ID": field("routing_id"),
    }
    query["sort"] = query["sort"] or "opened"
    less = ("PEER", "AGE", "SERVICES", "AWAY", "QUEUED", "HOME", "SUBSCRIPTIONS", "ROUTING ID")
    right = ("QUEUED", "SUBSCRIPTIONS")
    return show_all(connection, "/sessions", columns, right=right, less=less, query=query, **how)


@command(
    examples=("bussrv links", "bussrv links --sort -sessions"),
    statuses={0: "done", 1: "no such link is lost"},
)
@click.option("--forget", metavar="ROUTING-ID", help="Forget a lost link: its server is gone for good.")
@connects
@lists
def links(connection: ConnectionOptions, forget: str | None, **how: Any) -> int:
    """List the links to other servers, each with its state, the time since which it is up, the sessions that it leads
    to, the bytes that wait for it, and the round trip on the network. A link that was lost is down, with the time
    since and the reason, until it is back. So is a server of --expect-link that was never linked, or left the net of an
    uplink. With --forget, a lost link is not missed any more.
    """
    if forget is not None:
        from bussrv.cli.admin_client import element

        with existing(f"no link to '{cleaned(forget)}' is lost"):
            admin(connection).call("DELETE", f"/links/{element(forget)}")
        return 0
    from bussrv.cli.show.servers import round_trip, waiting

    columns = {
        "ROUTING ID": field("routing_id"),
        "ADDRESS": field("address"),
        "STATE": field("state"),
        "DIALED": _dialed,
        "AGE": moment("since"),
        "LOST": lambda each: None if _is_new(each) else moment("lost")(each),
        "REASON": lambda each: "never linked" if _is_new(each) else each.get("reason"),
        "SESSIONS": field("sessions"),
        "WAITING": waiting,
        "ROUND TRIP": round_trip,
        "NEIGHBORS": field("neighbors"),
    }
    less = ("AGE", "SESSIONS", "ROUND TRIP", "WAITING", "NEIGHBORS", "DIALED")
    return show_all(connection, "/links", columns, right=("SESSIONS", "WAITING", "ROUND TRIP"), less=less, **how)


@command(
    examples=("bussrv servers", "bussrv servers --where status=unreachable", "bussrv servers --sort -sessions --json"),
    statuses={0: "done"},
)
@connects
@lists
def servers(connection: ConnectionOptions, **how: Any) -> int:
    """List all servers that this one knows of: itself, those that it asks (--admin-peer of the server), and those that
    linked servers tell of. Each session is counted at its own server. CLOCK is the time that the clock of a server is
    ahead of that of the server that answers.
    """
    from bussrv.cli.show.servers import COLUMNS, LESS, RIGHT

    return show_all(connection, "/servers", COLUMNS, right=RIGHT, less=LESS, **how)


def _dialed(each: Mapping[str, Any]) -> str | None:
    if each.get("dialed"):
        return "by this server"
    return "by the other one" if each.get("address") else None


def _is_new(each: Mapping[str, Any]) -> bool:
    """Whether the other server is expected, and was never linked."""
    return bool(each.get("lost")) and not each.get("reason")


@command(
    examples=("bussrv who tv", "bussrv who hall-tv", "bussrv who tv --json"),
    statuses={0: "there is at least one", 1: "there is none"},
)
@click.argument("name", metavar="NAME")
@connects
@json_option
def who(connection: ConnectionOptions, name: str, as_json: bool) -> int:
    """Show the providers and the subscribers of a service, over every wire format and on linked servers. Members of the
    object network that receive everything are not subscribed to a service, and are not shown. AWAY is the time since
    the client of a durable session left, and QUEUED how many messages wait for it. If there is no such service, show
    the sessions that a person may call so: by the user, a claimed name, the address, the wire format, or an id; *
    stands for any text.
    """
    from bussrv.cli.admin_client import AdminError, element
    from bussrv.cli.show import output

    client = admin(connection)
    try:
        found = client.get(f"/services/{element(name)}")
    except AdminError as error:
        if error.status != 404:
            raise
        return _show_called(connection, name, as_json=as_json)
    if as_json:
        output.json_line(found)
        return 0
    _show("provider", found.get("providers", []), found.get("providers_count"), {})
    output.line("")
    further = {"AWAY": moment("away_since"), "QUEUED": queued, "WANTS": _interest}
    _show("subscriber", found.get("subscribers", []), found.get("subscribers_count"), further)
    return 0


def _show_called(connection: ConnectionOptions, name: str, *, as_json: bool) -> int:
    """Show the sessions that a person calls so.

    :raises Failure: there is none.
    """
    from bussrv.cli.show import output

    found = list(admin(connection).items("/sessions", called=name))
    if not found:
        nobody = f"nobody provides '{cleaned(name)}', is subscribed to it, or is called so"
        raise Failure(f"{nobody}; asked {connection.place('admin').address}{NOT_SHOWN}", NO)
    if as_json:
        for each in found:
            output.json_line(each)
    else:
        _show("session", found, None, {"SERVICES": services_of}, since="opened")
    return 0


def _show(
    what: str,
    sessions: Sequence[Mapping[str, Any]],
    count: int | None,
    further: Mapping[str, Any],
    *,
    since: str = "since",
) -> None:
    from bussrv.cli.show import output

    columns = {
        "CLIENT": called,
        "SESSION": field("session"),
        "FORMAT": field("protocol"),
        "PEER": field("peer"),
        "HOME": field("home"),
        "AGE": moment(since),
        **further,
        "ROUTING ID": field("routing_id"),
    }
    count = len(sessions) if count is None else count
    output.line(f"{count} {what}{'' if count == 1 else 's'}")
    if sessions:
        show_list(sessions, columns, less=("AGE", "SERVICES", "AWAY", "QUEUED", "HOME", "WANTS", "ROUTING ID"))


def _interest(each: Mapping[str, Any]) -> str:
    return "all" if each.get("interest") is None else json.dumps(each["interest"])
