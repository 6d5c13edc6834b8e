"""The simulation of networks: a tiny one, counted by hand, and what it assumes of the product."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import simulate_networks
from network_hops import (
    INTO,
    NODE_TO_NODE,
    OBJECT,
    OUT,
    RECEIVED,
    SERVERS,
    closing,
    closings,
    framed,
    heartbeat,
    mesh,
    nats,
    tree,
)
from networks import Network, Service, Shape, Wants, draw

from bussrv.uplink.crossing.frames import pack
from bussrv.uplink.crossing.interest import Interest
from bussrv.uplink.crossing.node import Node
from bussrv.uplink.crossing.outgoing import Outgoing, Publisher
from bussrv.uplink.nats.subjects import Subjects, covers

SIZING = Path(__file__).parents[2] / "docs/explanation/sizing.md"

SMALL = Shape(servers=10, sessions=500, services=200, kinds=5)

TINY = Network(
    servers=["site-00", "site-01", "site-02"],
    # Wanted at 2 by name; at 1 by nobody, but 1 observes another type. Then one that only its own server wants.
    services=[Service("k/a", 0, 0, 100.0), Service("k/b", 1, 0, 10.0)],
    wants=[Wants({0}), Wants({1}, {5}), Wants({0})],
    # Nobody wants the first, 1 wants the second.
    objects={(2, 0): 1.0, (2, 5): 2.0},
    addressed={(0, 2): 7.0},
    changes=3.0,
)


def test_a_mesh_of_three_by_hand() -> None:
    crossing = mesh(TINY)
    # 113 for everybody: two copies from home, and each of these is forwarded once more.
    assert crossing.objects[SERVERS] == crossing.objects[RECEIVED] == 113 * 4 + 7
    assert crossing.needed == 100 + 2 + 7
    # At home twice what is its own, elsewhere received twice and forwarded once.
    assert dict(crossing.busiest) == {0: 200 + 13 * 3 + 7, 1: 20 + 103 * 3, 2: 6 + 110 * 3 + 7}
    assert crossing.size[SERVERS] == 113 * (2 * 120 + 2 * 130) + 7 * 120


def test_a_chain_of_three_by_hand() -> None:
    crossing = tree(TINY, branches=1)
    assert crossing.objects[SERVERS] == 113 * 2 + 7 * 2
    # The middle one receives what is of others, and forwards it to the other side; its own goes to both.
    assert crossing.busiest[1] == 103 * 2 + 10 * 2 + 7 * 2
    assert crossing.size[RECEIVED] == 100 * (120 + 130) + 10 * 240 + 3 * (120 + 130) + 7 * (120 + 130)


def test_nats_of_three_by_hand() -> None:
    crossing = nats(TINY, has_interest=False)
    assert crossing.objects == {
        SERVERS: 120,
        INTO: 120,
        NODE_TO_NODE: 113 * 2 + 7,
        OUT: 113 * 2 + 7,
        RECEIVED: 113 * 2 + 7,
    }


def test_interest_of_three_by_hand() -> None:
    crossing = nats(TINY, has_interest=True)
    # k/a goes to 2, and to 1, which observes; k/b and the objects of type 0 do not cross; those of type 5 go to both.
    copies = 100 * 2 + 2 * 2 + 7
    assert crossing.objects == {SERVERS: 109, INTO: 109, NODE_TO_NODE: copies, OUT: copies, RECEIVED: copies}
    assert crossing.needed == 109
    assert dict(crossing.busiest) == {0: 100 + 2 + 7, 1: 100 + 2, 2: 100 + 2 + 7}
    assert crossing.size[RECEIVED] == copies * OBJECT


def test_two_servers_at_one_node_need_one_copy_between_nodes() -> None:
    servers = [f"site-{number:02}" for number in range(7)]
    wants = [Wants(), *(Wants({0}) for _ in servers[1:])]
    network = Network(servers, [Service("k/a", 0, 0, 1.0)], wants, {}, {}, 0.0)
    crossing = nats(network, has_interest=True)
    assert (crossing.objects[OUT], crossing.objects[NODE_TO_NODE]) == (6, 2)


def test_sizes_are_those_of_the_product() -> None:
    subject = Subjects("net").publication("k/a")
    line = len(f"PUB {subject} 120\r\n\r\n")
    assert framed("site-00", subject) == len(pack("site-00", bytes(8), 1, [bytes(OBJECT)])) + line
    assert closing("site-00", subject) == len(pack("site-00", bytes(8), 1, [])) + line
    beat = Node("site-00", "uplink/net", bytes(8), Subjects("net"), max_payload=1 << 20).beat()
    # Its number has four digits after a while.
    assert heartbeat("site-00") == len(beat) + 3 + len("PUB bus.net.beat.site-00 120\r\n\r\n")


def test_a_subject_is_closed_once_it_is_quiet() -> None:
    outgoing = Outgoing("site-00", bytes(8))
    outgoing.add("k/a", Publisher(), b"x")
    closed = []
    for _ in range(4):
        list(outgoing.take(1 << 20))
        closed.append(len(list(outgoing.closings())))
    assert closed == [0, 1, 0, 0]
    # Used in one interval, and not in the one after it: a half of a half, if half of them have objects.
    assert closings(math.log(2)) == pytest.approx(0.25)


def test_an_uplink_subscribes_as_the_simulation_says() -> None:
    subjects = Subjects("net")
    node = Node("site-00", "uplink/net", bytes(8), subjects, max_payload=1 << 20)
    wanted, other = subjects.publication("k/a"), subjects.publication("k/b")
    for types, services, expected in [(None, {"k/a"}, True), ({"x/y"}, set(), True), (set(), {"k/a"}, False)]:
        node.own = Interest(types=None if types is None else frozenset(types), services=set(services))
        listened = node.listens_to()
        assert any(covers(each, other) for each in listened) is expected
        assert any(covers(each, wanted) for each in listened)
        # Events are wanted on each server, and come with all objects.
        assert any(covers(each, subjects.of("obj", "site-01")) for each in listened)


def test_a_network_follows_from_its_seed() -> None:
    assert draw(SMALL, 7) == draw(SMALL, 7) != draw(SMALL, 8)
    assert sum(each.rate for each in draw(SMALL, 7).services) == pytest.approx(SMALL.publications)


def test_most_subscriptions_are_for_services_at_home() -> None:
    network = draw(Shape(servers=10, sessions=10, services=10_000, local=0.9, pattern_sessions=0), 3)
    taken = [network.services[each].home == home for home, wants in enumerate(network.wants) for each in wants.services]
    assert 0.7 < sum(taken) / len(taken) <= 1
    everywhere = draw(Shape(servers=10, sessions=100, services=500, pattern_sessions=0, all_sessions=1), 3)
    assert [len(wants.services) == 500 for wants in everywhere.wants] == [True] + [False] * 9


def test_interest_never_carries_more_than_all_to_all() -> None:
    found = list(simulate_networks.designs(SMALL, 1).values())
    every, *by_interest = [each.objects[RECEIVED] for each in found[2:]]
    assert by_interest == sorted(by_interest)
    assert by_interest[-1] <= every
    # Without observers, nothing comes in vain.
    assert found[3].needed == pytest.approx(by_interest[0])


def test_the_page_of_sizing_has_the_table() -> None:
    lines = simulate_networks.table(simulate_networks.designs(Shape(), 1))
    assert "\n".join(lines) in SIZING.read_text(encoding="utf-8")
