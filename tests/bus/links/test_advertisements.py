"""What a linked server, and a member, is told of sessions and services."""

import pytest

from tests.bus.links.fabric import DIALECTS, WORDS, about, ask, leave, notify


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_server_is_told_of_all_there_is_and_of_every_change(network, dialect):
    ann = network.member(**{"routing-id": "ann", "routing-ids": ["door"]})
    ann.send({"event": "services/register", "name": "tv"})
    cellar, (_, _, member, service, _) = ask(network, **{"routing-id": "cellar", **DIALECTS[dialect]})
    assert about(member) == (WORDS[dialect], "ann", ["hall"])
    assert (member["routing-ids"], member["protocol"], "role" in member) == (["door"], "objects", False)
    assert about(service) == ("services/register", "tv", ["ann", "hall"])
    bob = network.business(**{"unique-routing-id": "bob"})
    assert [about(head) for head in cellar.heads()] == [(WORDS[dialect], "bob", ["hall"])]
    ann.send({"event": "services/unregister", "name": "tv"})
    assert [about(head) for head in cellar.heads()] == [("services/unregister", "tv", ["ann", "hall"])]
    bob.connection.close()
    ann.send({"event": "routing/subscribe", "routing-id": "eve"})
    told = [about(head) for head in cellar.heads()]
    gone = [("routing/disconnect", name, ["hall"]) for name in ("bob", "ann")]
    assert told == [*gone, (WORDS[dialect], "eve", ["hall"])]


def test_a_server_is_told_of_providers_that_are_no_members(network):
    cellar = network.server("cellar")
    network.udp.publish("lamp", b"on")
    (told, publication) = cellar.heads()
    assert (told["event"], told["name"], told["protocol"]) == ("services/register", "lamp", "inbus")
    assert (publication["sender"], publication["route"][-1]) == ("lamp", "hall")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_members_are_told_of_the_members_of_other_servers(network, dialect):
    member = network.member(**DIALECTS[dialect])
    cellar = network.server("cellar")
    notify(cellar, "ann", **{"routing-ids": ["door"]})
    linked, far = member.heads()
    assert (linked["event"], linked["routing-id"], linked["role"]) == (WORDS[dialect], "cellar", "server")
    assert (far["event"], far["routing-id"], far["routing-ids"]) == (WORDS[dialect], "ann", ["door"])
    notify(cellar, "bob")
    leave(cellar, "ann")
    cellar.connection.close()
    told = [(head["event"], head["routing-id"]) for head in member.heads()]
    assert told[:2] == [(WORDS[dialect], "bob"), ("routing/disconnect", "ann")]
    assert sorted(told[2:]) == [("routing/disconnect", "bob"), ("routing/disconnect", "cellar")]


def test_services_are_told_together_to_whoever_understands_it(network):
    ann, names = network.member(**{"routing-id": "ann"}), [f"s{number:03}" for number in range(150)]
    for name in names:
        ann.send({"event": "services/register", "name": name})
    asked = {"subscriptions": ["*"], "directory": True, "understands": ["else", "names"]}
    cellar, heads = ask(network, **{"routing-id": "cellar", **asked})
    told = [each for each in (*heads, *cellar.heads()) if each["event"] == "services/register"]
    assert [len(each["names"]) for each in told] == [64, 64, 22]
    assert [name for each in told for name in each["names"]] == names
    assert {(each["routing-id"], tuple(each["route"])) for each in told} == {("ann", ("ann", "hall"))}
    # One change is told as before.
    ann.send({"event": "services/unregister", "name": "s001"})
    assert [each["name"] for each in cellar.heads()] == ["s001"]
    for odd in ({"understands": "names"}, {"understands": ["names"], "directory": False}, {}):
        cellar.connection.close()
        cellar, heads = ask(network, **{"routing-id": "cellar", **asked, "understands": None, **odd})
        told = [each for each in (*heads, *cellar.heads()) if each["event"] == "services/register"]
        assert [each["name"] for each in told] == [name for name in names if name != "s001"]


def test_many_services_are_learned_together(network):
    cellar, member = network.server("cellar", directory=True), network.member()
    network.bus.registry.reserved.add("weather")
    names = [f"s{number:03}" for number in range(200)]
    state = network.registry.state

    def learned():
        return sorted(name for name in state.services if not name.startswith("bus/"))

    fields = {"routing-id": "ann", "route": ["ann", "cellar"]}
    cellar.send({"event": "services/register", "names": [*names, "weather"], **fields})
    assert learned() == names
    cellar.send({"event": "services/unregister", "names": [*names[:150], "unknown"], **fields})
    assert learned() == names[150:]
    member.send({"event": "services/discovery", "name": "s199"})
    assert member.heads()[-1]["route"] == ["ann", "cellar"]
    cellar.send({"event": "services/unregister", **fields})
    assert learned() == []
