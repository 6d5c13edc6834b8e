"""Requests to other servers: providers that go before they answered, and members that merely observe there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bus.links.fabric import Fabric, leave, provide, say
from tests.formats.network import Member, Network, drain
from tests.tables import each_row

GRAPHS = [("ab",), ("ab", "bc"), ("ab", "bc", "ca"), ("ab", "bc", "cd", "da")]
REQUEST = "services/request"


def errors(member: Member) -> list[tuple[Any, Any]]:
    return [(fields["reason"], fields.get("in-reply-to")) for fields in member.heads() if fields["event"] == "error"]


class Scene:
    """A client at one end of a network, and a service at the other."""

    def __init__(self, *graph: str, listens: bool = False) -> None:
        names = sorted(set("".join(graph)))
        self.fabric = Fabric(*names)
        self.fabric.links(*graph)
        self.far = self.fabric[{2: "b", 3: "c", 4: "c"}[len(names)]]
        self.client = self.fabric["a"].member(receive_mode="no_echo")
        self.service = self.far.member(**({"subscriptions": ["@services/*"]} if listens else {"types": "none"}))
        if not listens:
            self.service.send({"event": "services/register", "name": "tv"})
        self.fabric.settle()
        drain([self.client, self.service])

    def ask(self, request_id: Any = "q") -> None:
        self.client.send({"event": REQUEST, "name": "tv", "id": request_id})
        self.fabric.settle()

    def open_requests(self) -> int:
        return sum(len(each.bus._requests) for each in self.fabric.servers.values())


def goes(scene: Scene) -> None:
    scene.service.connection.close()


def unregisters(scene: Scene) -> None:
    scene.service.send({"event": "services/unregister"})


def loses_its_links(scene: Scene) -> None:
    for (one, other), cable in scene.fabric.cables.items():
        if scene.far.server_id in (one, other):
            cable.unplug()


@each_row("graph", GRAPHS)
@each_row("way", [goes, unregisters, loses_its_links], ids=lambda way: way.__name__)
def test_the_requester_is_told_once_over_however_many_servers(
    graph: tuple[str, ...], way: Callable[[Scene], None]
) -> None:
    """And all servers have closed the request; what was answered before stays answered."""
    scene = Scene(*graph)
    scene.ask("answered")
    scene.service.send({"event": "services/reply", "in-reply-to": "answered"})
    scene.fabric.settle()
    scene.ask()
    assert [each for each in scene.client.names() if each == "services/reply"] == ["services/reply"]
    before = scene.open_requests()
    way(scene)
    scene.fabric.settle()
    assert errors(scene.client) == [("provider-gone", "q")]
    assert scene.open_requests() < before
    scene.service.send({"event": "services/reply", "in-reply-to": "q"})
    scene.fabric.settle()
    assert "in-reply-to" not in {key for fields in scene.client.heads() for key in fields}


@each_row("graph", GRAPHS)
def test_a_reply_sent_before_the_provider_left_is_not_lost(graph: tuple[str, ...]) -> None:
    scene = Scene(*graph)
    scene.ask()
    scene.service.send({"event": "services/reply", "in-reply-to": "q"})
    scene.service.connection.close()
    scene.fabric.settle()
    assert [head["event"] for head in scene.client.heads() if "in-reply-to" in head] == ["services/reply"]


@each_row("graph", GRAPHS)
def test_the_requester_waits_while_another_server_may_answer(graph: tuple[str, ...]) -> None:
    """Nobody registered: both servers have somebody who may answer."""
    scene = Scene(*graph, listens=True)
    here = scene.fabric["a"].member(subscriptions=["@services/*"])
    scene.fabric.settle()
    scene.ask()
    scene.service.connection.close()
    scene.fabric.settle()
    assert errors(scene.client) == []
    here.connection.close()
    scene.fabric.settle()
    # In a circle some servers were given the request twice. They answer only the way that it came first.
    is_circle = len(graph) > 2
    assert errors(scene.client) == ([] if is_circle else [("provider-gone", "q")])


@each_row("graph", GRAPHS)
@each_row("observing", [{"receive_mode": mode} for mode in ("events_only", "no_echo", "all")])
def test_a_remote_observer_does_not_keep_the_requester_waiting(
    graph: tuple[str, ...], observing: dict[str, Any]
) -> None:
    """Until it has replied to a request."""
    scene = Scene(*graph)
    unregisters(scene)
    observer = scene.far.member(**observing)
    scene.fabric.settle()
    drain([scene.client])
    scene.ask()
    assert errors(scene.client) == [("no-such-service", "q")]
    assert REQUEST in observer.names()
    observer.send({"event": "services/reply", "in-reply-to": "q"})
    scene.fabric.settle()
    scene.ask("again")
    assert errors(scene.client) == []
    observer.send({"event": "services/reply", "in-reply-to": "again"})
    scene.fabric.settle()
    assert "services/reply" in scene.client.names()


@each_row("directory", [False, True])
@each_row("gone", ["services/unregister", "routing/disconnect", "the name", "another name"])
def test_deployed_servers_advertise_that_a_provider_is_gone(directory: bool, gone: str) -> None:
    """Others say that themselves: a session may be gone from them only because another server is nearer to it."""
    network = Network()
    attic = network.server("attic", **({"directory": True} if directory else {}))
    client = network.member(receive_mode="no_echo")
    for name in ("tv", "radio"):
        provide(attic, "ann", name)
    client.send({"event": REQUEST, "name": "tv", "id": "q"})
    drain([client, attic])
    if gone == "routing/disconnect":
        leave(attic, "ann")
    else:
        named = {"the name": {"name": "tv"}, "another name": {"name": "radio"}}.get(gone, {})
        attic.send({"event": "services/unregister", "routing-id": "ann", **named, "route": ["ann", "attic"]})
    told = [] if directory or gone == "another name" else [("provider-gone", "q")]
    assert errors(client) == told
    say(attic, "ann", event="services/reply", in_reply_to="q")
    assert ("services/reply" in client.names()) == (not told)


@each_row("rules", [None, ["@services/reply"]])
@each_row("sender", ["attic", "ann"])
def test_another_server_may_say_that_its_provider_is_gone(rules: list[str] | None, sender: str) -> None:
    """It is the server's own answer, which always arrives. The same word of a client is a reply as any other."""
    network = Network()
    attic = network.server("attic", directory=True)
    client = network.member(**({"receive_mode": "no_echo"} if rules is None else {"subscriptions": rules}))
    attic.send({"event": "routing/subscribe/notify", "routing-id": "ann", "routing-ids": [], "route": ["attic"]})
    provide(attic, "ann", "tv")
    client.send({"event": REQUEST, "name": "tv", "id": 7})
    drain([client, attic])
    route = [sender] if sender == "attic" else [sender, "attic"]
    word = {"event": "error", "reason": "provider-gone", "message": "Gone.", "in-reply-to": 7}
    for _ in range(2):
        attic.send({**word, "to": client.routing_id, "route": route})
    if sender == "attic":
        assert errors(client) == [("provider-gone", 7)]
        assert (len(network.bus._requests), network.bus.counters["no-such-request"]) == (0, 1)
    else:
        assert errors(client) == ([("provider-gone", 7)] * 2 if rules is None else [])
        assert len(network.bus._requests) == 1


def test_the_client_of_a_deployed_server_is_told_over_its_link() -> None:
    """With the address of who asked, as the answers of servers to the clients of others have."""
    network = Network()
    attic, provider = network.server("attic"), network.member(types="none")
    provider.send({"event": "services/register", "name": "tv"})
    for name in ("ann", "bob"):
        say(attic, name, event=REQUEST, name="tv", id="q")
    drain([attic])
    provider.connection.close()
    told = [fields for fields in attic.heads() if fields["event"] == "error"]
    message = "the provider of 'tv' went before it answered"
    about = {"event": "error", "in-reply-to": "q", "route": ["hall"], "reason": "provider-gone", "message": message}
    assert told == [{**about, "to": name} for name in ("ann", "bob")]
