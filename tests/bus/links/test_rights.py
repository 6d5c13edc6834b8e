"""A linked server tells, and forwards, what the policy lets it tell, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.bus.links.rights import MOST_REMEMBERED
from bussrv.policy.permissions.file import parse_policy
from tests.bus.links.fabric import ask, dial, homes, leave, notify, provide, say
from tests.formats.network import Member, Network
from tests.tables import each_row

RULES = """
[[rule]]
users = ["anonymous"]
networks = ["127.0.0.1"]
link = ["cellar"]
tell = ["cellar-*", "attic"]
provide = ["!secret-*", "cellar/*", "tv", "!*"]
send = ["*"]
publish = ["*"]
address = ["*"]
observe = ["*"]

[[rule]]
users = ["*", "anonymous"]
provide = ["*"]
watch = ["*"]
request = ["*"]
send = ["*"]
publish = ["*"]
address = ["*"]
observe = ["*"]
"""


def judged(rules: str = RULES) -> Network:
    network = Network()
    reload(network, rules)
    return network


def reload(network: Network, rules: str) -> None:
    network.bus.access.policy = parse_policy(rules, Path("policy.toml"), ("objects", "business", "inbus", "spp"))
    network.bus.policy_changed()
    network.reactor.advance(1)


def denied(network: Network) -> list[tuple[str, str, str | None]]:
    return [(each.action, each.target, each.routing_id) for each in network.events(ev.AccessDenied)]


def services(network: Network) -> dict[str, set[str]]:
    """The services of remote sessions."""
    state = network.registry.state
    return {each.routing_id: set(state.provided_by(each.id)) for each in state.sessions.values() if each.home}


@pytest.fixture
def network() -> Iterator[Network]:
    network = judged()
    yield network
    assert network.bus.counters["not-allowed"] >= len(network.events(ev.AccessDenied))


@each_row(
    ("host", "name", "is_linked"),
    [
        ("127.0.0.1", "cellar", True),
        ("127.0.0.1", "attic", False),
        ("127.0.0.1", "CELLAR", False),
        # The policy decides, and not --link-allow.
        ("10.0.0.9", "cellar", False),
    ],
)
def test_who_may_be_which_server(host: str, name: str, is_linked: bool) -> None:
    network = judged()
    server, heads = ask(network, host, **{"routing-id": name})
    assert server.connection.is_open is is_linked
    assert (network.bus.links.neighbors() == [name]) is is_linked
    if not is_linked:
        assert heads[0]["reason"] == "link-not-allowed"
        assert [each[:2] for each in denied(network)] == [("link", name)]


def test_a_server_that_was_dialed_is_judged_too() -> None:
    network = judged()
    assert dial(network, "cellar").connection.is_open
    assert not dial(network, "attic").connection.is_open
    assert network.bus.links.neighbors() == ["cellar"]


def test_it_tells_of_its_own_sessions_and_services_only(network: Network) -> None:
    cellar = network.server("cellar")
    notify(cellar, "cellar-ann", **{"routing-ids": ["door", "cellar-door"]})
    notify(cellar, "boss")
    notify(cellar, "attic", role="server")
    provide(cellar, "cellar-ann", "tv")
    provide(cellar, "cellar-ann", "bank")
    provide(cellar, "cellar-bob", "secret-tv")
    provide(cellar, "boss", "tv")
    assert homes(network) == {"cellar-ann": "cellar", "attic": "cellar"}
    assert services(network) == {"cellar-ann": {"tv"}, "attic": set()}
    (ann,) = [each for each in network.registry.state.sessions.values() if each.routing_id == "cellar-ann"]
    assert ann.routing_ids == ("cellar-door",)
    assert denied(network) == [
        ("tell", "door", "cellar"),
        ("tell", "boss", "cellar"),
        ("provide", "bank", "cellar"),
        ("provide", "secret-tv", "cellar"),
        ("tell", "boss", "cellar"),
    ]


def test_it_ends_no_session_that_it_may_not_tell_of(network: Network) -> None:
    cellar = network.server("cellar")
    rules = RULES + '\n[[rule]]\nusers = ["anonymous"]\nlink = ["yard"]\ntell = ["*"]\n'
    reload(
        network, rules.replace('link = ["cellar"]', 'link = ["cellar", "yard"]').replace('"attic"]', '"attic", "y"]')
    )
    yard = network.server("yard")
    yard.send(
        {"event": "routing/subscribe/notify", "routing-id": "y", "routing-ids": [], "session": "s", "route": ["yard"]}
    )
    reload(
        network, RULES.replace('link = ["cellar"]', 'link = ["cellar", "yard"]').replace('"attic"]', '"attic", "y"]')
    )
    assert homes(network) == {"y": "yard"}
    reload(network, RULES.replace('link = ["cellar"]', 'link = ["cellar", "yard"]'))
    assert homes(network) == {}
    # Nobody may tell of it now.
    cellar.send({"event": "routing/disconnect", "routing-id": "y", "session": "s", "left": True, "route": ["cellar"]})
    assert denied(network)[-1] == ("tell", "y", "cellar")


def test_other_servers_in_a_route_are_not_judged(network: Network) -> None:
    """The threat model has this as open."""
    cellar = network.server("cellar")
    notify(cellar, "cellar-ann", route=["elsewhere", "cellar"])
    assert homes(network) == {"cellar-ann": "elsewhere"}
    assert denied(network) == []


def test_it_forwards_for_senders_that_it_may_tell_of(network: Network) -> None:
    ann, cellar = network.member(), network.server("cellar")
    notify(cellar, "cellar-ann")
    notify(cellar, "boss")
    ann.received()
    say(cellar, "cellar-ann", id=1)
    say(cellar, "boss", id=2)
    say(cellar, "boss", id=3, to=ann.routing_id)
    say(cellar, ann.routing_id, id=4)
    say(cellar, id=5)
    assert [head["id"] for head in ann.heads()] == [1, 5]
    assert [each[:2] for each in denied(network)] == [("tell", "boss")] * 3 + [("tell", ann.routing_id)]


def test_what_may_no_longer_be_told_is_forgotten_the_rest_stays(network: Network) -> None:
    member, cellar = network.member(), network.server("cellar")
    for name in ("cellar-ann", "cellar-bob"):
        notify(cellar, name)
        provide(cellar, name, "tv")
    provide(cellar, "cellar-ann", "cellar/lamp")
    member.received()
    reload(network, RULES.replace('"cellar-*", "attic"', '"cellar-ann"').replace('"cellar/*", "tv"', '"cellar/*"'))
    assert cellar.connection.is_open
    assert services(network) == {"cellar-ann": {"cellar/lamp"}}
    reasons = {(each.routing_id, each.reason) for each in network.events(ev.SessionClosed)}
    assert reasons == {("cellar-bob", "permission-withdrawn")}
    assert "routing/disconnect" in member.names()


@each_row(
    ("more", "is_open"),
    [
        ("", True),
        ('\n[[rule]]\nusers = ["ann"]\ntell = ["*"]\n', True),
        ('\n[[rule]]\nusers = ["anonymous"]\ntell = ["boss"]\n', False),
    ],
)
def test_what_may_be_told_only_now_has_to_be_told_again(more: str, is_open: bool) -> None:
    network = judged()
    cellar = network.server("cellar")
    notify(cellar, "boss")
    reload(network, RULES + more)
    assert cellar.connection.is_open is is_open
    ends = [each.reason for each in network.events(ev.SessionClosed)]
    assert ends == ([] if is_open else ["permission-changed"])


def test_the_memory_of_denials_is_bounded() -> None:
    network = judged()
    cellar = network.server("cellar")
    for number in range(MOST_REMEMBERED + 10):
        notify(cellar, f"boss-{number}")
    (link,) = network.bus.links._links.values()
    assert len(link.denied) == MOST_REMEMBERED
    assert len(network.events(ev.AccessDenied)) < 100
    reload(network, RULES)
    assert not cellar.connection.is_open


def test_a_link_that_may_be_none_any_more_is_closed(network: Network) -> None:
    cellar = network.server("cellar")
    reload(network, RULES.replace('link = ["cellar"]', 'link = ["other"]'))
    assert not cellar.connection.is_open
    assert network.events(ev.LinkDown)[-1].reason == "permission-withdrawn"


def test_for_any_policy_a_link_takes_no_routing_id_of_a_session() -> None:
    everything = '[[rule]]\nusers = ["anonymous"]\n' + "".join(
        f'{action} = ["*"]\n'
        for action in ("link", "tell", "provide", "send", "publish", "address", "observe", "request", "watch")
    )
    network = judged(everything)
    ann = network.member(**{"routing-id": "ann"})
    server, heads = ask(network, "10.0.0.9", **{"routing-id": "ann"})
    assert heads[0]["reason"] == "routing-id-taken"
    cellar = network.server("cellar")
    notify(cellar, "ann")
    provide(cellar, "ann", "tv")
    leave(cellar, "ann")
    assert not server.connection.is_open
    assert ann.connection.is_open
    assert homes(network) == {}
    assert network.registry.state.owner("ann") == ann.connection.protocol.session_id


SEEN = """
[[rule]]
networks = ["127.0.0.1"]
link = ["cellar"]
address = ["ann"]
watch = ["tv"]

[[rule]]
networks = ["10.0.0.0/8"]
provide = ["*"]
"""


def told(server: Member) -> list[tuple[str, ...]]:
    """What a linked server is told of sessions: members with their further ids, and who provides what."""
    said: list[tuple[str, ...]] = []
    for head in server.heads():
        kind = head["event"].partition("/")[2]
        if kind == "subscribe/notification":
            said.append((kind, head["routing-id"], *head["routing-ids"]))
        elif kind == "disconnect":
            said.append((kind, head["routing-id"]))
        elif kind in ("register", "unregister"):
            said.append((kind, head["route"][0], head.get("name", "")))
    return said


def test_a_linked_server_is_told_only_of_what_it_may_see() -> None:
    network = judged(SEEN)
    for routing_id, further in (("ann", "gate"), ("ben", "door")):
        member = network.member(**{"routing-id": routing_id, "routing-ids": [further]})
        for name in ("tv", "bank"):
            member.send({"event": "services/register", "name": name})
    cellar = Member(network.connect("objects", "127.0.0.1"))
    cellar.send({"event": "routing/subscribe", "role": "server", "routing-id": "cellar", "subscriptions": ["*"]})
    # A provider of a service that it may watch is known by its routing id.
    assert told(cellar) == [("subscribe/notification", "ann"), ("register", "ann", "tv"), ("register", "ben", "tv")]
    reload(network, SEEN.replace('["ann"]', '["ben", "door"]').replace('watch = ["tv"]', 'watch = ["bank"]'))
    assert told(cellar) == [
        ("disconnect", "ann"),
        ("register", "ann", "bank"),
        ("subscribe/notification", "ben", "door"),
        ("unregister", "ben", "tv"),
        ("register", "ben", "bank"),
    ]
