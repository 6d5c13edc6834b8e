"""A policy says which sessions may share a further routing id and so receive the objects that are addressed to it."""

from typing import Any

import pytest

from bussrv import events as ev
from bussrv.bus import send_rights
from tests.formats.network import Member, Network, drain
from tests.formats.test_visibility import member, prove, reload

SHARED = "news-1"
SECRET = "ann-only"


def scene() -> tuple[Network, Member, Member]:
    """Ann has two further ids; the policy lets Carl address one of them."""
    network = Network()
    reload(network)
    ann = member(network, "ann", **{"routing-ids": [SHARED, SECRET]})
    carl = member(network, "carl")
    drain([ann, carl])
    return network, ann, carl


def granted(asker: Member, *wanted: str) -> Any:
    asker.send({"event": "routing/subscribe", "id": "again", "routing-ids": list(wanted)})
    (reply,) = [each for each in asker.heads() if each["event"] == "routing/subscribe/reply"]
    return reply["routing-ids"]


def denied(network: Network) -> list[tuple[str, str, str | None]]:
    return [(each.action, each.target, each.actor) for each in network.events(ev.AccessDenied)]


def test_an_id_of_another_is_granted_to_those_who_may_address_it() -> None:
    network, ann, carl = scene()
    assert granted(carl, SHARED, SECRET, "carls") == [SHARED, "carls"]
    assert denied(network) == [("address", SECRET, "carl")]
    assert network.bus.counters["routing-id-not-granted"] == 1
    ben = member(network, "ben")
    drain([ann, carl, ben])
    for to in (SHARED, SECRET):
        ben.send({"event": to, "to": to})
    assert (ann.names(), carl.names()) == ([SHARED, SECRET], [SHARED])


def test_over_business_objects_too() -> None:
    network, _, _ = scene()
    carl = Member(network.connect("business"))
    prove(network, carl.connection, "carl")
    carl.send({"event": "client/register", "routing-ids": [SHARED, SECRET]})
    assert carl.heads()[0]["routing-ids"] == [SHARED]


def test_who_has_an_id_keeps_it_when_others_share_it() -> None:
    network, ann, carl = scene()
    assert granted(carl, "carls") == ["carls"]
    assert granted(ann, "carls", SECRET) == ["carls", SECRET]
    assert granted(carl, "carls") == ["carls"]
    assert granted(carl) == []
    assert granted(carl, "carls") == []
    assert denied(network) == [("address", "carls", "carl")]


def test_an_id_is_free_when_nobody_has_it_any_more() -> None:
    network, ann, carl = scene()
    ann.connection.close()
    assert granted(carl, SECRET) == [SECRET]
    assert denied(network) == []


def test_what_is_on_its_way_to_the_journal_is_somebodys_already() -> None:
    network, ann, carl = scene()
    network.journal.hold()
    for each in (ann, carl):
        each.send({"event": "routing/subscribe", "id": "again", "routing-ids": ["new"]})
    network.journal.release()
    assert [ann.heads()[0]["routing-ids"], carl.heads()[-1]["routing-ids"]] == [["new"], []]


def test_judging_takes_no_longer_than_for_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    network, ann, carl = scene()
    ids = [f"news-{number}" for number in range(10)]
    granted(ann, *ids)
    effort = network.bus._rights.permissions(carl.connection.protocol.session_id).effort("address")
    monkeypatch.setattr(send_rights, "MOST_STEPS", 3 * (effort or 1))
    assert granted(carl, *ids, "mine") == [*ids[:3], "mine"]


def test_a_linked_server_has_none() -> None:
    network = Network()
    link = network.server("attic", **{"routing-ids": ["tv"]})
    assert network.registry.state.sessions[link.connection.protocol.session_id].routing_ids == ()
