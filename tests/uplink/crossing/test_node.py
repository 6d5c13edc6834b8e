"""Servers joined by links and by a net at random, while uplinks are killed and the engine loses messages.

What holds for linked servers holds for these: see :mod:`tests.bus.links.test_simulation`.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from bussrv.events import SessionClosed
from bussrv.uplink.nats.settings import LAPSE
from tests.bus.links.fabric import Fabric
from tests.bus.links.test_simulation import NAMES, Simulation, graphs, index
from tests.size import sized
from tests.uplink.memory_net import NODE, uplinked


class NetSimulation(Simulation):
    @initialize(graph=graphs, joined=st.sets(st.integers(0, 7), min_size=1), edges=st.integers(0, 16))
    def begin(self, graph, joined, edges):
        """Fewer links than without a net: so that more goes over it."""
        size, cables = graph
        self.fabric = Fabric(*NAMES[:size], max_link_delay=2.0)
        self.clients, self.gone, self.number = [], [], 0
        for dialer, listener, latency in cables[:edges]:
            self.fabric.link(NAMES[dialer], NAMES[listener], latency)
        self.engine = uplinked(self.fabric, *(NAMES[each] for each in sorted({each % size for each in joined})))
        for name in self.fabric.servers:
            self.join(name)

    @rule(lost=st.sampled_from([0.1, 0.5, 1.0]))
    def the_engine_loses_messages(self, lost):
        self.engine.loses = lost

    @rule(who=index, whom=index)
    def settled_everything_arrives_exactly_once(self, who, whom):
        self.engine.loses = 0.0
        super().settled_everything_arrives_exactly_once(who, whom)

    def the_shortest_path_was_taken(self, relayed, distance):
        # The net counts nothing.
        assert relayed in (distance - 1, distance)


def test_an_expected_server_that_leaves_a_net_is_missed():
    """The health and the list of links ask for it; the journal has the end of its session."""
    fabric = Fabric("a", "b", expect_link=("b",))
    uplinked(fabric, "a", "b")
    links = fabric["a"].bus.links

    def missing():
        return [(each.server_id, each.reason) for each in links.missing()]

    assert missing() == [("b", None)]
    fabric.settle(3)
    assert (links.neighbors(), missing()) == ([NODE], [])
    fabric.cables["b", NODE].unplug()
    fabric.settle(2 * LAPSE)
    assert (links.neighbors(), missing()) == ([NODE], [("b", "unreachable")])
    (ended,) = [each.event for each in fabric["a"].journal.records if isinstance(each.event, SessionClosed)]
    assert (ended.routing_id, ended.reason) == ("b", "unreachable")
    fabric.cables["b", NODE].plug()
    fabric.settle(3)
    assert missing() == []
    fabric.cables["a", NODE].unplug()
    fabric.settle(3)
    assert missing() == [(NODE, "connection-lost"), ("b", "link-lost")]


TestNet = NetSimulation.TestCase
TestNet.settings = settings(max_examples=sized(40), stateful_step_count=25, deadline=None)
