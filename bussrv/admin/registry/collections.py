"""Pages of collections: filtered, sorted and cut, in steps of bounded time.

A cursor has the sorted value and the key of the last item of a page. So items that come or go between two pages do not
shift the next page. Only the items of one page are kept while the collection is read.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct
from twisted.internet.defer import Deferred

from bussrv.admin.http.answers import Problem
from bussrv.admin.http.channel import SLICES
from bussrv.admin.http.routes import END, Call, Parameter, Route
from bussrv.patterns import Wildcards
from bussrv.registry.state.naming import is_called
from bussrv.turns.slices import Slices

LIMIT = 100
"""The items of a page, unless the request says otherwise."""

MOST = 1_000
"""The most items of a page."""

CALLED = Parameter(
    name="called",
    type=Annotated[str, Meta(max_length=255)],
    help="Only sessions that a person may call so: by the user, a claimed name, a service, the address with or without "
    "the port, the wire format, or an id; `*` stands for any characters.",
)
"""A parameter of collections of sessions."""

_Scalar = (str, int, float, bool)
_Key = tuple[Any, ...]


class Page(Struct, frozen=True):
    """A page of a collection.

    :ivar seq: the number of the last record in the journal at the time of the answer.
    :ivar total: how many items pass the filters, on all pages.
    :ivar next: the value of ``after`` for the next page; ``None``: there is none.
    """

    seq: int
    total: int
    items: list[Any]
    next: str | None


def columns(item: type[Struct]) -> dict[str, type]:
    """The fields that a collection can be filtered and sorted by, with their types. They have single values."""
    hints = get_type_hints(item)
    found = {name: _scalar(hints[name]) for name in item.__struct_fields__}
    return {name: kind for name, kind in found.items() if kind is not None}


def _sorts(item: type[Struct]) -> tuple[str, ...]:
    """The fields that a collection can be sorted by: its columns, and for sessions what a person calls them."""
    return (*columns(item), *([CALLED.name] if isinstance(getattr(item, CALLED.name, None), property) else []))


def _filtered(item: type[Struct]) -> dict[str, type]:
    """The columns of an item that a query can filter by: all except those whose names mean something else there."""
    return {name: kind for name, kind in columns(item).items() if name not in ("limit", "after", "sort")}


def _scalar(hint: Any) -> type | None:
    is_union = get_origin(hint) in (Union, UnionType)
    kinds = [each for each in (get_args(hint) if is_union else (hint,)) if each is not type(None)]
    if len(kinds) == 1 and get_origin(kinds[0]) is Literal:
        return str
    return kinds[0] if len(kinds) == 1 and kinds[0] in _Scalar else None


@lru_cache
def parameters(item: type[Struct]) -> tuple[Parameter, ...]:
    """The parameters of a collection."""
    sorts = "|".join(_sorts(item))
    return (
        Parameter(
            name="limit", type=Annotated[int, Meta(ge=1, le=MOST)], help="The most items of the page.", default=LIMIT
        ),
        Parameter(name="after", type=Annotated[str, Meta(max_length=4096)], help="The `next` of the page before."),
        Parameter(
            name="sort",
            type=Annotated[str, Meta(pattern=f"^-?({sorts}){END}")],
            fields=_sorts(item),
            help="The field that the items are sorted by; with `-` before it from the greatest to the least.",
        ),
        *(_filter(name, kind) for name, kind in _filtered(item).items()),
    )


def _filter(name: str, kind: type) -> Parameter:
    if kind is str:
        help_ = f"Only items with this `{name}`; `*` stands for any characters. Empty: only items without one."
        return Parameter(name=name, type=Annotated[str, Meta(max_length=255)], help=help_)
    return Parameter(name=name, type=kind, help=f"Only items with this `{name}`.")


async def page_of(call: Call, items: Iterable[Struct | None]) -> Page:
    """The page of a collection that a request asks for.

    :param items: all items, made one after the other; ``None``: a piece of work that made no item.
    :raises Problem: ``bad-parameter``.
    """
    seq = call.shared.seq
    best = _Best(call.route, call.query)
    await in_steps(best.take(items), call.server.bus.slices)
    return best.page(seq)


def those_called(call: Call, items: Iterable[Struct]) -> Iterator[Struct | None]:
    """The items that :data:`CALLED` asks for; ``None`` for another one."""
    wanted = call.query[CALLED.name]
    return (each if wanted is None or is_called(each, wanted) else None for each in items)


def in_steps(steps: Iterator[None], slices: Slices) -> Deferred[None]:
    """Do work step by step, round-robin with other work.

    :returns: fires at the end. If it is cancelled, the rest of the work is not done.
    """
    done: Deferred[None] = Deferred()

    def work(until: float) -> bool:
        try:
            for _ in steps:
                if done.called:
                    return False
                if slices.is_over(until):
                    return True
        except BaseException:
            if not done.called:
                done.errback()
            return False
        if not done.called:
            done.callback(None)
        return False

    slices.do(work, SLICES)
    return done


class _Best:
    """Keeps the first items of a page, in their order."""

    def __init__(self, route: Route, query: Any) -> None:
        assert route.collection is not None
        sort = query["sort"] or route.sort
        self._is_descending = sort.startswith("-")
        self._field = sort.removeprefix("-")
        self._key_fields = route.key
        self._limit: int = query["limit"]
        self._sort = sort
        self._filters = _filters(_filtered(route.collection), query)
        self._after = None if query["after"] is None else _parse_cursor(query["after"], self._sort, len(route.key))
        self._kept: list[tuple[_Key, Any]] = []
        self._total = 0
        self._last: _Key | None = None

    def take(self, items: Iterable[Struct | None]) -> Iterator[None]:
        """Read all items, one per step. A step may have no item."""
        for item in items:
            if item is not None and all(matches(item) for matches in self._filters):
                self._total += 1
                self._keep(item)
            yield

    def _keep(self, item: Any) -> None:
        key = self._key_of(item)
        if self._after is not None and not self._is_before(self._after, key):
            return
        if self._last is not None and not self._is_before(key, self._last):
            return
        self._kept.append((key, item))
        if len(self._kept) > 2 * self._limit + 2:
            self._cut()

    def _is_before(self, one: _Key, other: _Key) -> bool:
        return one > other if self._is_descending else one < other

    def _cut(self) -> None:
        """Keep one item more than the page has. It shows that there is another page."""
        self._kept.sort(key=lambda each: each[0], reverse=self._is_descending)
        del self._kept[self._limit + 1 :]
        self._last = self._kept[-1][0] if len(self._kept) > self._limit else None

    def _key_of(self, item: Any) -> _Key:
        value = getattr(item, self._field) if self._field else None
        identity = (getattr(item, name) for name in self._key_fields)
        return (value is not None, 0 if value is None else value, *("" if each is None else each for each in identity))

    def page(self, seq: int) -> Page:
        self._cut()
        shown = self._kept[: self._limit]
        more = len(self._kept) > self._limit
        return Page(
            seq, self._total, [item for _, item in shown], _cursor(self._sort, shown[-1][0]) if more and shown else None
        )


def _filters(kinds: dict[str, type], query: Any) -> list[Callable[[Any], bool]]:
    return [_matcher(name, query[name], kind) for name, kind in kinds.items() if query[name] is not None]


def _matcher(name: str, wanted: Any, kind: type) -> Callable[[Any], bool]:
    if kind is not str:
        return lambda item: bool(getattr(item, name) == wanted)
    if not wanted:
        return lambda item: not getattr(item, name)
    if "*" not in wanted:
        return lambda item: bool(getattr(item, name) == wanted)
    match = Wildcards([wanted]).match
    return lambda item: getattr(item, name) is not None and match(getattr(item, name))


def _cursor(sort: str, key: _Key) -> str:
    return urlsafe_b64encode(msgspec.json.encode([sort, *key])).decode().rstrip("=")


def _parse_cursor(text: str, sort: str, identity: int) -> _Key:
    try:
        raw = urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
        said, *key = msgspec.json.decode(raw, type=list[bool | int | float | str])
    except (Error, ValueError, msgspec.DecodeError):
        raise Problem("bad-cursor") from None
    fits = said == sort and len(key) == 2 + identity and isinstance(key[0], bool)
    if not fits or not all(isinstance(each, str) for each in key[2:]):
        raise Problem("bad-cursor")
    return tuple(key)
