"""What a client may not see is answered as if it did not exist, whatever way it asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.policy.permissions.file import parse_policy
from bussrv.policy.permissions.permissions import EVERYTHING
from bussrv.policy.permissions.rules import RulePermissions
from bussrv.wire.spp import Info, Offer, Removed
from tests.formats.network import Connection, Member, Network, Watcher

FORMATS = ("objects", "spp", "inbus", "business")

POLICY = """\
[[rule]]
users = ["ann", "ben"]
{actions} = ["*"]
watch = ["*", "bus/*"]
observe = "*"
address = "*"

[[rule]]
users = ["carl"]
provide = "carl/*"
request = ["tv/*", "bus/clock"]
watch = "radio"
observe = ["*"]
address = ["ann", "carl", "news*", "cellar"]
"""


def reload(network: Network, text: str = POLICY) -> None:
    text = text.replace(
        "{actions} = ", "".join(f'{each} = "*"\n' for each in ("provide", "publish", "request")) + "send = "
    )
    network.bus.access.policy = parse_policy(text, Path("policy.toml"), FORMATS)
    network.bus.policy_changed()


def prove(network: Network, connection: Connection, user: str) -> None:
    about = network.registry.state.sessions[connection.protocol.session_id].about()
    network.registry.note(ev.AuthSucceeded(**{**about, "actor": user}, method="password"))


def member(network: Network, user: str, **more: Any) -> Member:
    made = Member(network.connect("objects"))
    prove(network, made.connection, user)
    made.send({"event": "routing/subscribe", "routing-id": user, **more})
    assert made.heads()[0]["routing-id"] == user
    return made


def business(network: Network, user: str) -> Member:
    made = Member(network.connect("business"))
    prove(network, made.connection, user)
    made.send({"event": "client/register", "unique-routing-id": f"{user}-2"})
    made.received()
    return made


def provide(provider: Member, *names: str) -> None:
    for name in names:
        provider.send({"event": "services/register", "name": name})
    provider.received()


def scene() -> tuple[Network, Member, Member, Member]:
    network = Network()
    reload(network)
    ann, ben, carl = (member(network, user) for user in ("ann", "ben", "carl"))
    provide(ann, "radio", "secret")
    provide(ben, "tv/one", "secret")
    for each in (ann, ben, carl):
        each.received()
    return network, ann, ben, carl


def discovered(asker: Member, **about: str) -> list[tuple[Any, ...]]:
    asker.send({"event": "services/discovery", "id": 1, **about})
    said = [fields for fields in asker.heads() if fields.get("event") != "services/discovery"]
    return [
        (fields.get("name"), fields.get("routing-id")) if "name" in fields else (fields["event"], fields["reason"])
        for fields in said
    ]


def test_discovery_and_lists_leave_out_what_is_hidden() -> None:
    network, _, ben, carl = scene()
    assert discovered(ben) == [("radio", "ann"), ("secret", "ann"), ("secret", "ben"), ("tv/one", "ben")]
    # Carl may ask for tv/one, but may not know who provides it.
    assert discovered(carl) == [("radio", "ann"), ("tv/one", None)]
    assert discovered(carl, name="radio") == [("radio", "ann")]
    assert discovered(carl, name="secret") == discovered(carl, name="no-such") == [("error", "no-such-service")]
    for user, wanted in (("ann", ["radio", "secret", "tv/one"]), ("carl", ["radio", "tv/one"])):
        client = business(network, user)
        for _ in range(2):
            client.send({"event": "services/list", "id": 1})
            ((_, payload),) = client.received()
            assert json.loads(payload) == wanted


def test_lists_follow_the_services_and_the_policy() -> None:
    network, ann, _, _ = scene()
    client = business(network, "carl")

    def listed() -> Any:
        client.send({"event": "services/list", "id": 1})
        ((_, payload),) = client.received()
        return json.loads(payload)

    assert listed() == ["radio", "tv/one"]
    provide(ann, "tv/two", "x")
    assert listed() == ["radio", "tv/one", "tv/two"]
    reload(network, POLICY.replace('"tv/*"', '"x"'))
    assert listed() == ["radio", "x"]


def test_names_are_sorted_out_in_steps_and_once_for_all() -> None:
    network, ann, _, carl = scene()
    provide(ann, *(f"tv/{number:04}" for number in range(1000)))
    bus = network.bus
    permissions = bus.access.of(network.registry.state.sessions[carl.connection.protocol.session_id])
    *steps, names = bus.visible_names(permissions)
    assert steps == [None] * 11
    assert names is not None
    assert len(names) == 1002
    (again,) = bus.visible_names(permissions)
    assert again is names
    assert next(bus.visible_names(EVERYTHING)) is bus.service_names()


def test_members_are_told_only_of_those_they_may_know_of() -> None:
    network, ann, ben, carl = scene()
    one = Member(network.connect("objects"))
    prove(network, one.connection, "ann")
    one.send({"event": "routing/subscribe", "routing-id": "news-1", "routing-ids": ["news", "hidden"]})
    other = Member(network.connect("objects"))
    prove(network, other.connection, "ann")
    other.send({"event": "routing/subscribe", "routing-id": "other"})
    said = {name: each.heads() for name, each in (("ben", ben), ("carl", carl))}
    assert [(each["routing-id"], each["routing-ids"]) for each in said["ben"]] == [
        ("news-1", ["news", "hidden"]),
        ("other", []),
    ]
    assert [(each["routing-id"], each["routing-ids"]) for each in said["carl"]] == [("news-1", ["news"])]
    assert said["ben"][0]["id"] == said["carl"][0]["id"]
    for each in (one, other):
        each.connection.close()
    assert [each["routing-id"] for each in ben.heads()] == ["news-1", "other"]
    assert [each["routing-id"] for each in carl.heads()] == ["news-1"]
    assert ann.connection.is_open


def test_neighbors_that_may_not_be_known_are_left_out() -> None:
    network = Network()
    network.server("cellar")
    network.server("attic")
    reload(network, POLICY + '[[rule]]\nlink = "*"\n')
    for user, wanted in (("ann", ["attic", "cellar"]), ("carl", ["cellar"])):
        client = member(network, user)
        client.received()
        client.send({"event": "routing/neighbors", "to": "hall", "id": 1})
        (reply,) = [each for each in client.heads() if each["event"] == "routing/neighbors/reply"]
        assert reply["neighbors"] == wanted


def watcher(network: Network, user: str) -> Watcher:
    made = network.watcher()
    prove(network, made.connection, user)
    return made


def test_clients_of_spp_are_offered_what_they_may_know_of() -> None:
    network, ann, ben, _ = scene()
    assert watcher(network, "ann").received() == [Offer("radio"), Offer("secret"), Offer("tv/one")]
    carl, zoe = watcher(network, "carl"), network.watcher()
    assert carl.received() == [Offer("radio"), Offer("tv/one")]
    provide(ann, "tv/two", "quiet")
    ben.send({"event": "services/unregister", "name": "tv/one"})
    assert carl.received() == [Offer("tv/two"), Removed("tv/one")]
    # What is hidden and what is not there are the same, and neither says anything.
    for name in ("secret", "quiet", "no-such"):
        carl.subscribe(name)
    carl.subscribe("radio")
    assert carl.received() == [Info("radio", b"")]
    refused = network.events(ev.SubscriptionRefused, ev.AccessDenied)
    assert {type(each) for each in refused} == {ev.AccessDenied}
    assert zoe.received() == []
    reload(network, POLICY.replace('"radio"', '"quiet"'))
    assert carl.received() == [Removed("radio"), Offer("quiet")]
    (lost,) = network.events(ev.SubscriptionRemoved)
    assert (lost.service, lost.reason) == ("radio", "permission-withdrawn")
    # Nothing at all, and then again.
    reload(network, POLICY.replace('"carl"', '"ben"'))
    assert carl.received() == [Removed("quiet"), Removed("tv/two")]
    reload(network)
    assert carl.received() == [Offer("radio"), Offer("tv/two")]


def test_a_client_that_saw_nothing_is_offered_services_on_reload() -> None:
    network, *_ = scene()
    zoe = network.watcher()
    assert zoe.received() == []
    reload(network, POLICY + '[[rule]]\nusers = "anonymous"\nwatch = "tv/*"\n')
    assert zoe.received() == [Offer("tv/one")]


def test_clients_with_the_same_permissions_share_their_offers(monkeypatch: pytest.MonkeyPatch) -> None:
    network, ann, *_ = scene()
    clients = [watcher(network, "carl") for _ in range(200)]
    looked: list[str] = []
    sees = RulePermissions.sees_service

    def counted(self: RulePermissions, name: str) -> bool:
        looked.append(name)
        return sees(self, name)

    monkeypatch.setattr(RulePermissions, "sees_service", counted)
    provide(ann, "tv/two", "tv/three")
    assert all(client.received()[-2:] == [Offer("tv/two"), Offer("tv/three")] for client in clients)
    assert len(looked) <= 2 * len(network.bus.service_names())
