"""Routes: what a row of the table of routes says, what its function is given, and how the row for a request is found.

The table itself is :mod:`bussrv.admin.table`. The server, its description in OpenAPI and the reference of the API are
made from the same rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
import msgspec.inspect
from msgspec import Struct

from bussrv.admin.http.answers import Problem
from bussrv.admin.http.login import Caller, Permission
from bussrv.admin.interfaces import AdministeredJournal, AdministeredServer
from bussrv.admin.state import RequestMemory

END = r"$(?!\n)"
"""The end of a text in a pattern of a parameter. ``$`` alone matches before a last line end, too, and the schemas in
which patterns are published know no ``\\Z``."""

MOST_PARAMETERS = 50
"""The most parameters of a query."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a query.

    :ivar type: the type of its values for msgspec; bounds are annotations.
    :ivar default: the value if it is left out.
    :ivar fields: the names that it may have, for the answer to another one; empty: it is no name of a field.
    """

    name: str
    type: Any
    help: str
    default: Any = None
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Route:
    """A row of the table: one method at one path.

    A parameter of the path stands in braces, such as ``/api/v1/sessions/{session}``. Only the last one may have
    slashes; then it ends with ``...``.

    :ivar function: serves a request. It is given a :class:`Call`, and returns the value that is answered as JSON, or an
        :class:`bussrv.admin.http.answers.Answer`. For a stream it is given an
        :class:`bussrv.admin.http.sending.EventStream`, too, and returns when the stream is complete. When the client
        goes, the function is cancelled at its ``await``.
    :ivar answers: the type of the JSON that is answered, if its function does not return a value of that type.
    :ivar is_open: whether everybody may send this request.
    :ivar is_of_statistics: whether it shows no more than ``bus/statistics``, so that whoever may watch that, or is a
        scraper, needs no other permission.
    :ivar is_page: whether it is a part of the dashboard's page, which pages of other sites may link to.
    :ivar collection: the type of the items, if the answer is a page of a collection; see
        :mod:`bussrv.admin.registry.collections`.
    :ivar key: the fields that identify an item of a collection.
    :ivar sort: how a collection is sorted unless the request says otherwise.
    :ivar is_of_registry: whether the answer is a function of the registry, so that it has an ``ETag``.
    :ivar is_stream: whether it is a stream of server-sent events.
    :ivar body: the type of the body of the request; ``None``: it has none.
    :ivar media_type: the media type of the answer, if it is neither JSON nor a stream.
    :ivar status: the status of an answer without problems.
    :ivar also: another status that such an answer may have.
    :ivar problems: the codes of problems that do not follow from the rest of the row.
    """

    path: str
    function: Callable[..., Awaitable[Any]]
    method: str = "GET"
    answers: Any = None
    is_open: bool = False
    is_of_statistics: bool = False
    is_page: bool = False
    parameters: tuple[Parameter, ...] = ()
    collection: type[msgspec.Struct] | None = None
    key: tuple[str, ...] = ()
    sort: str = ""
    is_of_registry: bool = False
    is_stream: bool = False
    body: Any = None
    media_type: str = ""
    status: int = 200
    also: int | None = None
    problems: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """A sentence or two: the first paragraph of the docstring of its function."""
        return " ".join((inspect.getdoc(self.function) or "").partition("\n\n")[0].split())

    @property
    def permission(self) -> Permission | None:
        """The permission that the caller needs; ``None``: none."""
        return None if self.is_open else "read" if self.method == "GET" else "write"

    @property
    def has_effects(self) -> bool:
        """Whether a request does more than read: a stream takes one of few places, and a tap is journaled."""
        return self.is_stream or self.method != "GET"

    @property
    def path_parameters(self) -> list[str]:
        """The names of the parameters of the path."""
        return [part[1:-1].removesuffix("...") for part in self.path.split("/") if part.startswith("{")]


class Call(Struct, frozen=True):
    """One request, checked.

    :ivar shared: the memory of the admin interface, which all requests share.
    :ivar routes: the whole table.
    :ivar path: the parameters of the path, by name.
    :ivar query: the parameters of the query, by name, with defaults for those that were left out.
    :ivar body: the body, as an object of the route's type.
    :ivar headers: the headers, by lower-case name.
    """

    server: AdministeredServer
    shared: RequestMemory
    caller: Caller
    route: Route
    routes: tuple[Route, ...]
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any
    headers: Mapping[str, str]

    @property
    def journal(self) -> AdministeredJournal:
        """The directory of the journal.

        :raises Problem: ``no-journal``.
        """
        if self.server.place is None:
            raise Problem("no-journal")
        return self.server.place


class Routes:
    """Finds the row for a request."""

    def __init__(self, rows: Iterable[Route]) -> None:
        self.rows = tuple(rows)
        self._by_path: dict[str, dict[str, Route]] = {}
        for row in self.rows:
            self._by_path.setdefault(row.path, {})[row.method] = row

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """The row, and the values of the parameters of the path.

        :param path: the path as it came, with percent signs.
        :raises Problem: ``not-found``, ``bad-method`` or ``bad-request``.
        """
        parts = path.split("/")
        for pattern, by_method in self._by_path.items():
            found = _match(pattern.split("/"), parts)
            if found is None:
                continue
            row = by_method.get("GET" if method == "HEAD" else method)
            if row is None or (row.is_stream and method == "HEAD"):
                raise Problem("bad-method", headers={"Allow": ", ".join(allowed(by_method))})
            return row, {name: decoded(value) for name, value in found.items()}
        raise Problem("not-found")


def allowed(by_method: Mapping[str, Route]) -> list[str]:
    """The methods that a path takes."""
    return [*by_method, *(["HEAD"] if "GET" in by_method and not by_method["GET"].is_stream else [])]


def _match(pattern: Sequence[str], parts: Sequence[str]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for index, wanted in enumerate(pattern):
        if wanted.endswith("...}"):
            found[wanted[1:-4]] = "/".join(parts[index:])
            return found if found[wanted[1:-4]] else None
        if index >= len(parts):
            return None
        if wanted.startswith("{") and parts[index]:
            found[wanted[1:-1]] = parts[index]
        elif wanted != parts[index]:
            return None
    return found if len(pattern) == len(parts) else None


def decoded(text: str) -> str:
    """A text of a path without percent signs.

    :raises Problem: ``bad-request``: it is not UTF-8.
    """
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise Problem("bad-request", "the path is not UTF-8") from None


def parse_query(query: str, parameters: Iterable[Parameter]) -> dict[str, Any]:
    """The values of the parameters of a query; a parameter that is left out has its default.

    :raises Problem: ``bad-parameter``.
    """
    known = {each.name: each for each in parameters}
    values = {name: each.default for name, each in known.items()}
    given: set[str] = set()
    for name, text in _pairs(query):
        if name not in known:
            raise Problem("bad-parameter", f"there is no parameter {name[:100]!r} here")
        if name in given:
            raise Problem("bad-parameter", f"{name} is given twice")
        given.add(name)
        try:
            values[name] = msgspec.convert(text, known[name].type, strict=False)
        except msgspec.ValidationError as error:
            said = _too_long(text, known[name].type) or _unfit(text, known[name]) or str(error)
            raise Problem("bad-parameter", f"{name}: {said}") from None
    return values


def _unfit(text: str, parameter: Parameter) -> str | None:
    """The fault of a text that has not the form of its parameter; ``None``: its type says no more of it."""
    shown = repr(text[:100])
    if parameter.fields:
        return f"there is no field {shown}; there are {', '.join(parameter.fields)}"
    has_form = getattr(msgspec.inspect.type_info(parameter.type), "pattern", None) is not None
    return f"{shown} does not fit. {parameter.help}" if has_form and parameter.help else None


def _too_long(text: str, type_: Any) -> str | None:
    """The fault of a text that is too long; ``None``: it is not, or its type has no bound."""
    longest = getattr(msgspec.inspect.type_info(type_), "max_length", None)
    is_too_long = longest is not None and len(text) > longest
    return f"{len(text)} characters are too many, at most {longest} are taken" if is_too_long else None


def _pairs(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
    except UnicodeDecodeError:
        raise Problem("bad-parameter", "the query is not UTF-8") from None
    except ValueError:
        raise Problem("bad-parameter", f"the query has more than {MOST_PARAMETERS} parameters") from None
