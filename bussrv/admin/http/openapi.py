"""The description of the API in OpenAPI 3.1, made from the table of routes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, get_type_hints

import msgspec

from bussrv.admin.http.answers import JSON, MEDIA_TYPE, PROBLEMS, Answer, Details
from bussrv.admin.http.routes import Call, Parameter, Route
from bussrv.admin.http.sending import EVENT_STREAM
from bussrv.admin.registry.collections import Page, parameters
from bussrv.version import VERSION

_REF = "#/components/schemas/{name}"

EVERYWHERE = (
    "bad-request",
    "bad-parameter",
    "bad-origin",
    "request-timeout",
    "bad-host",
    "too-many-requests",
    "head-too-large",
    "internal-error",
)
"""The problems that every request may end with."""

PROTECTED = ("not-authenticated", "bad-credentials", "not-allowed")
WRITING = ("bad-content-type", "body-too-large")

EFFECTS = "Send `Content-Type: application/json`, even without a body: pages of other hosts cannot."


async def show(call: Call) -> Answer:
    """This API, in OpenAPI 3.1."""  # noqa: D404 - it is the summary of the route
    return Answer(_encoded(call.routes))


@lru_cache(maxsize=1)
def _encoded(rows: tuple[Route, ...]) -> bytes:
    return msgspec.json.encode(describe(rows))


def describe(rows: Sequence[Route]) -> dict[str, Any]:
    """The description of routes."""
    types = _types(rows)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    of_type = {id(each): schema for each, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        paths.setdefault(row.path.replace("...}", "}"), {})[row.method.lower()] = _operation(row, of_type)
    return {
        "openapi": "3.1.0",
        "info": {"title": "bussrv admin API", "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "user": {"type": "http", "scheme": "basic"},
            },
        },
    }


def _types(rows: Iterable[Route]) -> list[Any]:
    found: list[Any] = [Details]
    for row in rows:
        answers = _type_of_answers(row)
        found += [each for each in (answers, row.collection, row.body) if each is not None]
        found += [each.type for each in _parameters(row)]
    return list({id(each): each for each in found}.values())


def _type_of_answers(row: Route) -> Any:
    returned = Page if row.collection is not None else get_type_hints(row.function)["return"]
    return row.answers if row.answers is not None or returned in (Answer, type(None)) else returned


def _parameters(row: Route) -> tuple[Parameter, ...]:
    return (*(parameters(row.collection) if row.collection is not None else ()), *row.parameters)


def _operation(row: Route, of_type: dict[int, Any]) -> dict[str, Any]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in row.path_parameters
    ]
    in_query = [
        {"name": each.name, "in": "query", "description": each.help, "schema": _with_default(each, of_type)}
        for each in _parameters(row)
    ]
    operation: dict[str, Any] = {
        "operationId": f"{row.function.__module__.rpartition('.')[2]}.{getattr(row.function, '__name__', '')}",
        "summary": row.summary,
        **({"description": EFFECTS} if row.has_effects else {}),
        "parameters": [*in_path, *in_query],
        "responses": _responses(row, of_type),
        "security": [{"token": []}, {"user": []}, *([{}] if row.permission != "write" else [])],
    }
    if row.permission is None:
        operation["security"] = [{}]
    if row.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": of_type[id(row.body)]}}}
    return operation


def _with_default(parameter: Parameter, of_type: dict[int, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = of_type[id(parameter.type)]
    return schema if parameter.default is None else {**schema, "default": parameter.default}


def _responses(row: Route, of_type: dict[int, Any]) -> dict[str, Any]:
    done: dict[str, Any] = {"description": "Done."}
    if row.status != 204:
        media_type, schema = _answer(row, of_type)
        done["content"] = {media_type: {"schema": schema}}
    found: dict[str, Any] = {str(row.status): done}
    if row.also is not None:
        found[str(row.also)] = done
    if row.is_of_registry or row.permission is None:
        found["304"] = {"description": "Nothing has changed since the answer with this `ETag`."}
    by_status: dict[int, list[str]] = {}
    for code in problems_of(row):
        by_status.setdefault(PROBLEMS[code].status, []).append(code)
    for status, codes in sorted(by_status.items()):
        said = "; ".join(f"`{code}`: {PROBLEMS[code].title}" for code in codes)
        found[str(status)] = {"description": said, "content": {MEDIA_TYPE: {"schema": of_type[id(Details)]}}}
    return found


def problems_of(row: Route) -> list[str]:
    """The codes of the problems that a request for a route may end with."""
    codes = [*EVERYWHERE, *row.problems]
    if row.permission == "write":
        codes.append("journal-unavailable")
    if row.permission is not None:
        codes += PROTECTED
    if row.has_effects:
        codes += WRITING
    if row.body is not None:
        codes.append("bad-body")
    if row.collection is not None:
        codes.append("bad-cursor")
    if row.is_stream:
        codes.append("too-many-streams")
    if "...}" in row.path:
        codes.append("not-found")
    return list(dict.fromkeys(codes))


def _answer(row: Route, of_type: dict[int, Any]) -> tuple[str, Any]:
    if row.is_stream:
        return EVENT_STREAM, {"type": "string"}
    if row.collection is not None:
        return JSON, _page(of_type[id(row.collection)])
    answers = _type_of_answers(row)
    if answers is not None:
        return JSON, of_type[id(answers)]
    return row.media_type or JSON, {}


def _page(item: Any) -> dict[str, Any]:
    properties = {
        "seq": {"type": "integer", "description": "The last record of the journal that the answer knows of."},
        "total": {"type": "integer", "description": "How many items the filters leave, on all pages."},
        "items": {"type": "array", "items": item},
        "next": {"type": ["string", "null"], "description": "The value of `after` for the next page."},
    }
    return {"type": "object", "required": list(properties), "properties": properties}
