"""Servers linked at random, while links break, members come and go and objects are under way; a clock moved by hand.

Whatever happens, nobody is given an object twice. Once things have settled, everybody who can be reached is given it
exactly once, what has a known recipient takes the shortest way and no other, and each server knows who can be reached.
"""

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from bussrv.registry.state.state import RegistryState
from tests.bus.links.fabric import Fabric
from tests.formats.network import Member, Network
from tests.size import sized

NAMES = "abcdefgh"
SERVICES = ("tv", "radio")

# Pairs of servers, of which the first dials; a pair both routes is one link all the same.
graphs = st.integers(2, 8).flatmap(
    lambda size: st.lists(
        st.tuples(st.integers(0, size - 1), st.integers(0, size - 1), st.sampled_from([0.001, 0.02, 0.3])).filter(
            lambda edge: edge[0] != edge[1]
        ),
        min_size=size - 1,
        max_size=2 * size,
        unique_by=lambda edge: edge[:2],
    ).map(lambda edges: (size, edges))
)
index = st.integers(0, 1000)


class Client:
    """A member, what it was given, and what it provides."""

    def __init__(self, home: str, member: Member) -> None:
        self.home = home
        self.member = member
        self.services: set[str] = set()
        self.got: Counter[str] = Counter()
        self.taken: list[dict[str, Any]] = []

    @property
    def id(self) -> str:
        return self.member.routing_id

    def take(self) -> list[dict[str, Any]]:
        """What came since the last time, but for what servers say of members."""
        taken = [fields for fields in self.member.heads() if "number" in fields]
        self.got.update(str(fields["number"]) for fields in taken)
        return taken


class Simulation(RuleBasedStateMachine):
    @initialize(graph=graphs)
    def begin(self, graph: tuple[int, list[tuple[int, int, float]]]) -> None:
        size, edges = graph
        self.fabric = Fabric(*NAMES[:size], max_link_delay=2.0)
        self.clients: list[Client] = []
        self.gone: list[Client] = []
        self.number = 0
        for dialer, listener, latency in edges:
            self.fabric.link(NAMES[dialer], NAMES[listener], latency)
        for name in self.fabric.servers:
            self.join(name)

    # What happens.

    def join(self, home: str) -> None:
        member = self.fabric[home].member(receive_mode="no_echo", **{"routing-ids": ["everybody"]})
        self.clients.append(Client(home, member))

    @rule(where=index)
    def a_member_joins(self, where: int) -> None:
        self.join(list(self.fabric.servers)[where % len(self.fabric.servers)])

    @precondition(lambda self: len(self.clients) > 2)
    @rule(who=index)
    def a_member_leaves(self, who: int) -> None:
        client = self.clients.pop(who % len(self.clients))
        client.take()
        client.member.connection.close()
        self.gone.append(client)

    @rule(who=index, service=st.sampled_from(SERVICES))
    def a_service_comes_or_goes(self, who: int, service: str) -> None:
        client = self.clients[who % len(self.clients)]
        wanted = "unregister" if service in client.services else "register"
        client.member.send({"event": f"services/{wanted}", "name": service})
        client.services ^= {service}

    @rule(which=index)
    def a_link_breaks_or_is_mended(self, which: int) -> None:
        cables = list(self.fabric.cables.values())
        cable = cables[which % len(cables)]
        if cable.is_plugged:
            cable.unplug()
        else:
            cable.plug()

    @rule(who=index, whom=index)
    def something_is_sent_in_the_middle_of_it(self, who: int, whom: int) -> None:
        sender, recipient = self.clients[who % len(self.clients)], self.clients[whom % len(self.clients)]
        self.send(sender, {"event": "shout"})
        self.send(sender, {"event": "whisper", "to": recipient.id})
        self.send(sender, {"event": "services/request", "name": "tv"})

    @rule(milliseconds=st.sampled_from([0, 1, 5, 50, 500]))
    def a_little_time_passes(self, milliseconds: int) -> None:
        self.fabric.run(milliseconds / 1000)
        self.nobody_was_given_anything_twice()

    # What holds.

    @rule(who=index, whom=index)
    def settled_everything_arrives_exactly_once(self, who: int, whom: int) -> None:
        self.fabric.settle(20)
        self.nobody_was_given_anything_twice()
        self.everybody_knows_who_can_be_reached()
        sender, recipient = self.clients[who % len(self.clients)], self.clients[whom % len(self.clients)]
        self.a_publication_reaches_everybody(sender)
        self.an_address_is_found(sender, recipient)
        self.a_shared_address_is_found(sender)
        self.a_request_finds_one_provider_and_its_reply_the_way_back(sender)

    def teardown(self) -> None:
        if not hasattr(self, "fabric"):
            return
        self.settled_everything_arrives_exactly_once(0, 1)
        for network in self.fabric.servers.values():
            assert network.registry.state == folded(network)
        assert not any(network.bus.counters["internal-error"] for network in self.fabric.servers.values())

    def nobody_was_given_anything_twice(self) -> None:
        for client in self.clients:
            client.take()
        for client in self.clients + self.gone:
            assert set(client.got.values()) <= {1}, client.got

    def everybody_knows_who_can_be_reached(self) -> None:
        for name in self.fabric.servers:
            reach = self.distances(name)
            wanted: dict[str, str | None] = {
                client.id: None if client.home == name else client.home
                for client in self.clients
                if client.home in reach
            }
            wanted |= {server: None if distance == 1 else server for server, distance in reach.items() if distance}
            assert self.fabric.known(name) == wanted
            state = self.fabric[name].registry.state
            provided = {
                (service, state.sessions[session].routing_id)
                for service, providers in state.services.items()
                for session in providers
            }
            assert provided == {
                (service, client.id) for client in self.clients if client.home in reach for service in client.services
            }

    def a_publication_reaches_everybody(self, sender: Client) -> None:
        number = self.send(sender, {"type": "text/plain"}, b"x")
        self.fabric.settle(5)
        reach = self.distances(sender.home)
        for client in self.clients:
            got = [fields["number"] for fields in client.take()]
            assert got == ([number] if client.home in reach and client is not sender else [])

    def an_address_is_found(self, sender: Client, recipient: Client) -> None:
        before = self.relayed()
        number = self.send(sender, {"event": "whisper", "to": recipient.id})
        self.fabric.settle(5)
        distance = self.distances(sender.home).get(recipient.home)
        for client in self.clients:
            got = [fields["number"] for fields in client.take()]
            reached = client is recipient and distance is not None and client is not sender
            assert got == ([number] if reached else [])
        if distance is not None:
            self.the_shortest_path_was_taken(self.relayed() - before, distance)

    def the_shortest_path_was_taken(self, relayed: int, distance: int) -> None:
        assert relayed == distance

    def a_shared_address_is_found(self, sender: Client) -> None:
        number = self.send(sender, {"event": "whisper", "to": ["everybody", sender.id]})
        self.fabric.settle(5)
        reach = self.distances(sender.home)
        for client in self.clients:
            got = [fields["number"] for fields in client.take()]
            assert got == ([number] if client.home in reach and client is not sender else [])

    def a_request_finds_one_provider_and_its_reply_the_way_back(self, sender: Client) -> None:
        reach = self.distances(sender.home)
        providers = [each for each in self.clients if "radio" in each.services and each.home in reach]
        if not providers or providers == [sender]:
            return
        number = self.send(sender, {"event": "services/request", "name": "radio"})
        self.fabric.settle(5)
        asked = [client for client in providers if any(fields["number"] == number for fields in client.take())]
        assert len(asked) == 1
        self.nobody_was_given_anything_twice()
        self.number += 1
        asked[0].member.send({"event": "services/reply", "in-reply-to": f"r{number}", "number": self.number})
        self.fabric.settle(5)
        for client in self.clients:
            got = [fields["number"] for fields in client.take() if fields["event"] == "services/reply"]
            assert got == ([self.number] if client is sender else [])

    # What the checks are made of.

    def send(self, sender: Client, fields: dict[str, Any], payload: bytes = b"") -> int:
        self.number += 1
        sender.member.send({**fields, "id": f"r{self.number}", "number": self.number}, payload)
        return self.number

    def relayed(self) -> int:
        """How many objects the servers passed on to each other."""
        return sum(network.bus.counters["link-objects"] for network in self.fabric.servers.values())

    def distances(self, start: str) -> dict[str, int]:
        """Over how many links each server can be reached."""
        found = {start: 0}
        edge = [start]
        while edge:
            name = edge.pop(0)
            for (one, other), cable in self.fabric.cables.items():
                for here, there in ((one, other), (other, one)):
                    if cable.is_plugged and here == name and there not in found:
                        found[there] = found[name] + 1
                        edge.append(there)
        return found


def folded(network: Network) -> RegistryState:
    state = RegistryState()
    for record in network.journal.records:
        state.apply(record.event, record.time)
    return state


TestSimulation = Simulation.TestCase
TestSimulation.settings = settings(max_examples=sized(40), stateful_step_count=25, deadline=None)
