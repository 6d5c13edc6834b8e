"""Pages: whatever the filters, the order and the size, they hold each item once; changes between them shift nothing."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from bussrv.admin.http.routes import Call, Route
from bussrv.admin.registry.collections import Page, columns, page_of
from bussrv.patterns import Wildcards
from tests.admin.scene import Admin, Client
from tests.size import sized


class Thing(Struct, frozen=True):
    id: str
    colour: str | None
    weight: int | None
    heavy: bool
    limit: int
    parts: list[str] = []


NAMES = st.text("ab*\u00e4 ", max_size=3)
THINGS = st.lists(
    st.builds(
        Thing,
        NAMES,
        st.none() | NAMES,
        st.none() | st.integers(-3, 3),
        st.booleans(),
        st.integers(0, 2),
    ),
    max_size=25,
    unique_by=lambda each: each.id,
)


def scene_of(things: list[Thing]) -> Client:
    def items() -> Iterator[Thing | None]:
        for each in things:
            yield None
            yield each

    async def show(call: Call) -> Page:
        return await page_of(call, items())

    row = Route(path="/things", function=show, collection=Thing, key=("id",))
    return Admin(rows=[row], admin_max_rate=10**6).client()


def pages(client: Client, limit: int, **query: str) -> Iterator[list[str]]:
    after: dict[str, str] = {}
    while True:
        page = client.ask(f"/things?{urlencode({'limit': limit, **query, **after})}").json
        yield [each["id"] for each in page["items"]]
        if page["next"] is None:
            return
        after = {"after": page["next"]}


def reference(things: list[Thing], sort: str, query: dict[str, str]) -> list[str]:
    def fits(each: Thing) -> bool:
        for name, wanted in query.items():
            value = getattr(each, name)
            if isinstance(value, bool):
                value = str(value).lower()
            if wanted == "" and name in ("id", "colour"):
                matches = not value
            else:
                matches = value is not None and Wildcards([wanted]).match(str(value))
            if not matches:
                return False
        return True

    field = sort.removeprefix("-")

    def key(each: Thing) -> tuple:
        value = getattr(each, field) if field else None
        return (value is not None, 0 if value is None else value, each.id)

    return [each.id for each in sorted(filter(fits, things), key=key, reverse=sort.startswith("-"))]


SORTS = st.sampled_from(["", *(f"{sign}{name}" for sign in ("", "-") for name in columns(Thing))])
QUERIES = st.fixed_dictionaries(
    {},
    optional={
        "id": NAMES,
        "colour": NAMES,
        "weight": st.integers(-3, 3).map(str),
        "heavy": st.sampled_from(["true", "false"]),
    },
)


@settings(max_examples=sized(240), deadline=None)
@given(THINGS, SORTS, QUERIES, st.integers(1, 9))
def test_pages_are_the_filtered_and_sorted_whole(
    things: list[Thing], sort: str, query: dict[str, str], limit: int
) -> None:
    client = scene_of(things)
    found = list(pages(client, limit, **query, **({"sort": sort} if sort else {})))
    assert [each for page in found for each in page] == reference(things, sort, query)
    assert all(len(page) == limit for page in found[:-1])


@settings(max_examples=sized(180), deadline=None)
@given(THINGS, SORTS, st.integers(1, 4), st.data())
def test_what_stays_is_shown_once_whatever_comes_and_goes(
    things: list[Thing], sort: str, limit: int, data: st.DataObject
) -> None:
    staying = [each for each in things if data.draw(st.booleans())]
    passing = [each for each in things if each not in staying]
    present = list(things)
    client = scene_of(present)
    shown: list[str] = []
    for page in pages(client, limit, **({"sort": sort} if sort else {})):
        shown += page
        present[:] = [*staying, *(each for each in passing if data.draw(st.booleans()))]
    kept = [each.id for each in staying]
    assert sorted(each for each in shown if each in kept) == sorted(kept)


def test_cursors_of_other_pages_are_refused() -> None:
    client = scene_of([Thing(str(number), None, None, False, 0) for number in range(5)])
    after = client.ask("/things?limit=2").json["next"]
    assert client.ask(f"/things?limit=2&sort=-id&after={after}").code == "bad-cursor"
    for wrong in ("x", "WzFd", "\u00e4", after[:-3], ""):
        assert client.ask(f"/things?{urlencode({'after': wrong})}").code == "bad-cursor"
    for query in (
        "limit=0",
        "limit=1001",
        "limit=x",
        "sort=parts",
        "sort=--id",
        "colour=a&colour=b",
        "heavy=maybe",
        "sort=id%0a",
    ):
        assert client.ask(f"/things?{query}").code == "bad-parameter"
    assert client.ask("/things?colour=%ff").code == "bad-parameter"
    assert client.ask("/things?" + "&".join(f"x{n}=1" for n in range(60))).code == "bad-parameter"


def test_an_answer_is_not_sent_again_until_something_has_changed() -> None:
    scene = Admin()
    client = scene.client()
    tag = client.ask("/api/v1/sessions").headers["ETag"]
    assert client.ask("/api/v1/sessions", If_None_Match=tag).status == 304
    assert client.ask("/api/v1/sessions?sort=-opened", If_None_Match=f'"other", {tag}').status == 304
    # The opening of a session that has done nothing is not journaled yet.
    seq = client.ask("/api/v1/server").json["seq"]
    scene.connect("objects")
    changed = client.ask("/api/v1/sessions", If_None_Match=tag)
    assert (changed.status, changed.json["total"]) == (200, 1)
    assert changed.headers["ETag"] != tag
    assert client.ask("/api/v1/server").json["seq"] - seq in (0, 1)


def test_a_large_collection_is_gone_through_in_slices() -> None:
    client = scene_of([Thing(str(number), None, number % 7, False, 0) for number in range(3000)])
    page = client.ask("/things?sort=-weight&limit=1000&heavy=false").json
    assert (page["total"], len(page["items"])) == (3000, 1000)
