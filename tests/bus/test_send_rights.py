"""Permission on a whole server: a plain reading of the rules says who is given each object, and what is denied."""

from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.bus.send_rights import MOST_STEPS
from bussrv.formats.objects.members import MOST_TOLD
from bussrv.policy.permissions.file import parse_policy
from bussrv.policy.permissions.permissions import EVERYTHING
from bussrv.wire.objects import encode
from tests.formats.network import Member, Network, drain, limits
from tests.size import sized
from tests.tables import each_row

USERS = ("ann", "ben", "carl")
SERVICES = ("tv", "radio")
CONTENT = ("text/plain", "image/png", "@go", "@stop")
TARGETS = {
    **dict.fromkeys(("provide", "publish", "watch", "request"), SERVICES),
    **dict.fromkeys(("send", "observe"), CONTENT),
    "address": USERS,
}
FORMATS = ("objects", "spp", "inbus", "business")


class Table(dict[tuple[str, str], frozenset[str]]):
    """The targets that a user is allowed, by user and action."""

    def may(self, user: str, action: str, target: str) -> bool:
        return target in self[user, action]

    def text(self) -> str:
        rules = []
        for user in USERS:
            rules.append(f'[[rule]]\nusers = ["{user}"]\nlink = "none-at-all"\n')
            for (named, action), targets in self.items():
                if named == user and targets:
                    rules.append(f"{action} = {sorted(targets)}\n".replace("'", '"'))
        return "".join(rules)


class Sent(NamedTuple):
    """An object that is sent: a content type, or ``@`` and an event."""

    by: str
    content: str
    sender: str | None
    to: tuple[str, ...] | None

    def fields(self, number: int) -> dict[str, Any]:
        key, value = ("event", self.content[1:]) if self.content.startswith("@") else ("type", self.content)
        named = {"sender": self.sender, "to": list(self.to) if self.to else None}
        return {key: value, "id": f"n{number}", **{key: value for key, value in named.items() if value is not None}}


tables = st.fixed_dictionaries(
    {(user, action): st.frozensets(st.sampled_from(targets)) for user in USERS for action, targets in TARGETS.items()}
).map(Table)
sent = st.builds(
    Sent,
    st.sampled_from(USERS),
    st.sampled_from(CONTENT),
    st.sampled_from((None, *SERVICES)),
    st.none() | st.lists(st.sampled_from(USERS), min_size=1, max_size=2, unique=True).map(tuple),
)


class Scene:
    """Three members and an SPP client for each of the same users, under a policy."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.network = network = Network()
        network.bus.access.policy = parse_policy(table.text(), Path("policy.toml"), FORMATS)
        self.members = {user: self._member(user) for user in USERS}
        self.provided = {user: self._register(user) for user in USERS}
        self.watchers = {user: network.watcher() for user in USERS}
        self.watched = {user: self._watch(user) for user in USERS}
        network.reactor.advance(1)
        drain(list(self.members.values()))

    def prove(self, session_id: str, user: str) -> None:
        about = self.network.registry.state.sessions[session_id].about()
        self.network.registry.note(ev.AuthSucceeded(**{**about, "actor": user}, method="password"))

    def _member(self, user: str) -> Member:
        member = Member(self.network.connect("objects"))
        self.prove(member.connection.protocol.session_id, user)
        member.send({"event": "routing/subscribe", "routing-id": user})
        assert member.only_reply()["routing-id"] == user
        return member

    def _register(self, user: str) -> set[str]:
        member = self.members[user]
        member.received()
        for name in SERVICES:
            member.send({"event": "services/register", "name": name})
        replies = [fields.get("reason", fields.get("name")) for fields in member.heads()]
        wanted = [name if self.table.may(user, "provide", name) else "not-allowed" for name in SERVICES]
        assert replies == wanted
        return set(replies) & set(SERVICES)

    def _watch(self, user: str) -> set[str]:
        watcher = self.watchers[user]
        self.prove(watcher.connection.protocol.session_id, user)
        watcher.received()
        for name in SERVICES:
            watcher.subscribe(name)
        held = self.network.registry.state.subscriptions.get(watcher.connection.protocol.session_id, {})
        present = set().union(*self.provided.values())
        assert {name for name in held if name} == {n for n in present if self.table.may(user, "watch", n)}
        watcher.received()
        return set(held)

    def service_of(self, each: Sent) -> str | None:
        provided = self.provided[each.by]
        if each.to is not None:
            return None
        if each.sender is None:
            return next(iter(provided)) if len(provided) == 1 else None
        return each.sender if each.sender in provided else None

    def is_allowed(self, each: Sent) -> bool:
        service = self.service_of(each)
        may_publish = service is None or self.table.may(each.by, "publish", service)
        is_sent = service is None or each.content.startswith("@")
        return may_publish and (not is_sent or self.table.may(each.by, "send", each.content))

    def addressable(self, each: Sent) -> list[str]:
        return [routing_id for routing_id in each.to or () if self.table.may(each.by, "address", routing_id)]

    def is_given(self, user: str, each: Sent) -> bool:
        if not self.is_allowed(each):
            return False
        if each.to is not None:
            return user in self.addressable(each)
        service = self.service_of(each)
        action, target = ("observe", each.content) if service is None else ("watch", service)
        return self.table.may(user, action, target)


@settings(max_examples=sized(300))
@given(tables, st.lists(st.lists(sent, min_size=1, max_size=6), max_size=4))
def test_everybody_is_given_what_the_rules_say(table: Table, chunks: list[list[Sent]]) -> None:
    """Objects of a chunk that one user sends are routed as a batch."""
    scene = Scene(table)
    number = 0
    for chunk in chunks:
        by_user: dict[str, list[tuple[int, Sent]]] = {user: [] for user in USERS}
        for each in chunk:
            number += 1
            by_user[each.by].append((number, each))
        for user, own in by_user.items():
            frames = b"".join(encode(each.fields(at), b"%d" % at) for at, each in own)
            scene.members[user].connection.send_bytes(frames)
        in_order = [pair for own in by_user.values() for pair in own]
        for user, member in scene.members.items():
            said = member.heads()
            errors = [fields["in-reply-to"] for fields in said if fields.get("event") == "error"]
            assert errors == [f"n{at}" for at, each in in_order if each.by == user and not scene.is_allowed(each)]
            given_ids = [fields["id"] for fields in said if fields.get("event") != "error"]
            assert given_ids == [f"n{at}" for at, each in in_order if scene.is_given(user, each)]
            addressed = [fields["to"] for fields in said if "to" in fields]
            shown = [scene.addressable(each) for at, each in in_order if each.to and scene.is_given(user, each)]
            assert addressed == shown
            published = [(at, scene.service_of(each)) for at, each in in_order if scene.is_allowed(each)]
            wanted = [b"%d" % at for at, service in published if service in scene.watched[user]]
            assert scene.watchers[user].messages() == wanted
        scene.network.reactor.advance(2)


def test_denials_are_told_a_few_times_a_second_and_then_summed() -> None:
    nothing = Table({(user, action): frozenset() for user in USERS for action in TARGETS})
    scene = Scene(nothing)
    ann = scene.members["ann"]
    for number in range(3 * MOST_TOLD):
        ann.send({"event": "go", "id": number})
    assert [fields["in-reply-to"] for fields in ann.heads()] == list(range(MOST_TOLD))
    scene.network.reactor.advance(1)
    (summed,) = ann.heads()
    assert (summed["reason"], summed["suppressed"]) == ("not-allowed", 2 * MOST_TOLD)
    ann.send({"event": "go", "id": "again"})
    assert [fields["in-reply-to"] for fields in ann.heads()] == ["again"]
    assert scene.network.bus.counters["not-allowed"] >= 3 * MOST_TOLD + 1
    denied = scene.network.events(ev.AccessDenied)
    assert {(each.action, each.target, each.actor) for each in denied} >= {("send", "@go", "ann")}
    ann.connection.close()
    scene.network.reactor.advance(2)


def test_requests_need_permission_and_hidden_services_seem_gone() -> None:
    nothing = {(user, action): frozenset[str]() for user in USERS for action in TARGETS}
    allowed = {("ann", "provide"): SERVICES, ("ben", "request"): ("tv",), ("ben", "watch"): ("radio",)}
    scene = Scene(Table({**nothing, **{key: frozenset(value) for key, value in allowed.items()}}))
    ann, ben, carl = scene.members.values()
    for asker in (ben, carl):
        for name in (*SERVICES, "no-such"):
            asker.send({"event": "services/request", "id": name, "name": name})
    said = {name: [fields.get("reason") for fields in asker.heads()] for name, asker in (("ben", ben), ("carl", carl))}
    # Ben sees the radio, since he may watch it; carl sees nothing.
    assert said == {"ben": ["not-allowed", "no-such-service"], "carl": ["no-such-service"] * 3}
    (asked,) = ann.heads()
    assert (asked["name"], asked["route"][0]) == ("tv", "ben")
    ann.send({"event": "services/reply", "in-reply-to": asked["id"], "to": "ben"}, b"on")
    assert [payload for _, payload in ben.received()] == [b"on"]


def test_a_request_with_two_services_needs_permission_for_both() -> None:
    """Providers of different make read different ones of the two attributes."""
    nothing = {(user, action): frozenset[str]() for user in USERS for action in TARGETS}
    scene = Scene(Table({**nothing, ("ben", "request"): frozenset({"tv"}), ("carl", "observe"): frozenset(CONTENT)}))
    ben = scene.members["ben"]
    for number, names in enumerate(({"name": "tv", "service": "radio"}, {"name": 7, "service": "tv"})):
        ben.send({"event": "services/request", "id": number, **names})
    assert [fields["reason"] for fields in ben.heads()] == ["no-such-service"] * 2
    denied = [each.target for each in scene.network.events(ev.AccessDenied) if each.action == "request"]
    assert denied == ["radio", ""]


@each_row(("event",), [("error",), ("ERROR",), ("Services/Reply",), ("Services/Request",)])
def test_words_of_the_vocabulary_publish_nothing(event: str) -> None:
    """Replies need no permission, so none may become a publication on the way."""
    nothing = {(user, action): frozenset[str]() for user in USERS for action in TARGETS}
    tv = frozenset({"tv"})
    allowed = {("ann", "provide"): tv, ("ann", "request"): tv, ("ben", "watch"): tv}
    scene = Scene(Table({**nothing, **allowed}))
    scene.members["ann"].send(
        {"event": event, "sender": "tv", "type": "text/plain", "name": "tv", "id": "1"}, b"forged"
    )
    assert scene.watchers["ben"].messages() == []
    assert scene.members["ben"].heads() == []
    assert scene.network.bus.last("tv", EVERYTHING) == b""


def test_patterns_that_take_long_to_compare_allow_few_addressees() -> None:
    """Judging 1,000 addressees by 16,384 characters of wildcards would take 3 seconds, in one go."""
    network = Network()
    patterns = [f"{'?a' * 30}*b*{number:03}" for number in range(200)]
    network.bus.access.policy = parse_policy(
        f"[[rule]]\nsend = '*'\naddress = {patterns}", Path("policy.toml"), FORMATS
    )
    member = network.member()
    most = MOST_STEPS // sum(map(len, patterns))
    for number in (most, most + 1):
        member.send({"event": "go", "to": [f"{'a' * 60}{each}" for each in range(number)]})
    (refused,) = member.heads()
    assert refused["reason"] == "too-many-addressees"


def test_an_object_is_addressed_to_only_so_many() -> None:
    network = Network(max_addressees=2)
    one, other = network.member(routing_id="one"), network.member(types="none")
    for to in (["one", "two"], ["one", "two", "three"]):
        other.send({"event": "hello", "id": len(to), "to": to})
    (error,) = [fields for fields in other.heads() if fields["event"] == "error"]
    assert (error["in-reply-to"], error["reason"]) == (3, "too-many-addressees")
    assert limits(network) == [("max-addressees", 2, "too-many-addressees", "10.0.0.1:4711")]
    assert network.bus.counters["max-addressees"] == 1
    assert one.connection.is_open
