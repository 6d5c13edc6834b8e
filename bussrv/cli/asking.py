"""Requests to the admin interface, and lists of its answers."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from bussrv.cli.connection import ConnectionOptions
from bussrv.cli.failure import NO, Failure
from bussrv.cli.parameters import whole
from bussrv.terminal import cleaned

if TYPE_CHECKING:
    from bussrv.cli.admin_client import AdminClient

SESSION_ID = re.compile(r"[0-9a-f]{12}\.[0-9]+")
FEW = 2
"""The services that a list names of each session."""

MOST_NAMED = 5
"""The sessions that a message names, if several are called so."""

Cell = Callable[[Mapping[str, Any]], object]
"""Returns the cell of an item in a column."""


def admin(connection: ConnectionOptions) -> AdminClient:
    """The admin interface of the server that the command line names."""
    from bussrv.cli.admin_client import AdminClient

    place = connection.place("admin")
    port = None if place.address.is_unix else place.address.port
    given = place.credentials.given()
    return AdminClient(place.address.host, port, place.timeout, place.tls, **given, base=place.address.path)


def lists(function: Callable[..., int]) -> Callable[..., int]:
    """Declare the options of a list. The function gets them as ``query``, and ``most``."""

    @click.option(
        "--where",
        metavar="FIELD=VALUE",
        multiple=True,
        help="Only those with that value; * stands for any text; may be repeated. --json shows the fields.",
    )
    @click.option("--sort", metavar="FIELD", help="Sort by a field; with - before it downwards, such as -opened.")
    @click.option("--limit", "most", metavar="N", type=whole(1), help="At most so many.")
    @click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
    @functools.wraps(function)
    def listed(connection: ConnectionOptions, where: Sequence[str], sort: str | None, **given: Any) -> int:
        return function(connection, query={**_filters(where), "sort": sort}, **given)

    return listed


def _filters(where: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in where:
        name, separator, value = each.partition("=")
        if not separator or name in found or name in ("limit", "after", "sort"):
            raise click.UsageError(f"--where: {each!r} is no FIELD=VALUE, or its field is there twice")
        found[name] = value
    return found


def show_list(
    found: Sequence[Mapping[str, Any]],
    columns: Mapping[str, Cell],
    right: Sequence[str] = (),
    less: Sequence[str] = (),
) -> None:
    """Print items as a table; see :func:`bussrv.cli.show.output.table`.

    :param columns: by heading.
    """
    from bussrv.cli.show import output

    output.table(list(columns), [[value(each) for value in columns.values()] for each in found], right, less)


def show_all(
    connection: ConnectionOptions,
    path: str,
    columns: Mapping[str, Cell],
    *,
    query: Mapping[str, Any],
    most: int | None,
    as_json: bool,
    **how: Sequence[str],
) -> int:
    """Print a collection of the admin interface, with the options of :func:`lists`: as a table, or as JSON.

    :param how: which columns are of numbers, and which a narrow terminal may do without, as in :func:`show_list`.
    """
    from bussrv.cli.show import output

    found = list(admin(connection).items(path, most, **query))
    if as_json:
        for each in found:
            output.json_line(each)
    else:
        show_list(found, columns, **how)
    return 0


def field(name: str) -> Cell:
    """A column that shows a field."""
    return lambda each: each.get(name)


def queued(each: Mapping[str, Any]) -> int | None:
    """How many messages wait for a durable session."""
    return each.get("waiting_messages") or None


def services(each: Mapping[str, Any]) -> str | None:
    """The services of a session: a few by name, and how many more there are."""
    names, count = each.get("provides") or [], each.get("services") or 0
    shown = list(names[:FEW])
    more = count - len(shown)
    return ", ".join(shown) + (f" +{more}" if more > 0 else "") or None


def sessions_called(client: AdminClient, name: str) -> list[str]:
    """The ids of the sessions that a person calls so: that one, if it is the id of a session.

    :raises Failure: there is none.
    """
    if SESSION_ID.fullmatch(name):
        return [name]
    found = [str(each["session"]) for each in client.items("/sessions", called=name)]
    if not found:
        raise Failure(f"there is no session '{cleaned(name)}', and none is called so", NO)
    return found


def session_called(client: AdminClient, name: str) -> str:
    """The id of the one session that a person calls so.

    :raises Failure: there is none, or there are several.
    """
    found = sessions_called(client, name)
    if len(found) > 1:
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        ids = f"{', '.join(found[:MOST_NAMED])}{more}"
        raise Failure(f"{len(found)} sessions are called '{cleaned(name)}': {ids}; name one by its id", NO)
    return found[0]


def moment(name: str) -> Cell:
    """A column with the time since a moment, such as ``26 min``. JSON has the moment."""
    return lambda each: age(each.get(name))


@contextmanager
def existing(otherwise: str) -> Iterator[None]:
    """Ask about a thing that may not be there.

    :param otherwise: a sentence that says that it is not.
    :raises Failure: the server says so.
    """
    from bussrv.cli.admin_client import AdminError

    try:
        yield
    except AdminError as error:
        if error.status != 404:
            raise
        raise Failure(otherwise, NO) from error


UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def age(moment: object, now: float | None = None) -> object:
    """The time since a moment, in the largest unit that fits; a value that is no moment as it is.

    :param moment: as the admin interface writes it.
    :param now: in seconds of UTC; ``None``: the present.
    """
    try:
        since = datetime.fromisoformat(str(moment).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return moment
    passed = max(0.0, (time.time() if now is None else now) - since)
    size, unit = next((each for each in UNITS if passed >= each[0]), UNITS[-1])
    return f"{int(passed / size)} {unit}"
