"""Clocks of linked servers: measured over links, within half of a round trip, whatever is in the way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.bus.link_clocks import MOST_ANSWERS
from bussrv.journal.record import format_time
from tests.bus.links.fabric import Fabric
from tests.formats.network import MovedClock, Network
from tests.size import sized

SECOND = 1_000_000


class SetClock(MovedClock):
    """A clock that somebody may set.

    :ivar off: seconds.
    """

    off = 0.0

    def utc(self) -> int:
        return super().utc() + int(self.off * SECOND)


def set_clock(network: Network, off: float) -> None:
    clock = network.bus.link_clocks._clock
    if not isinstance(clock, SetClock):
        clock = network.bus.link_clocks._clock = SetClock(network.reactor)
    clock.off = off


def pinged(server: Any) -> dict[str, Any]:
    """The ping that a played server was sent."""
    (ping,) = [each for each in server.heads() if each.get("event") == "ping"]
    return ping  # type: ignore[no-any-return]


def answer(network: Network, server: Any, ping: dict[str, Any], ahead: float | None) -> None:
    time = {} if ahead is None else {"time": format_time(network.bus.utc() + int(ahead * SECOND))}
    route = [server.routing_id]
    server.send({"event": "pong", "in-reply-to": ping["id"], "to": network.server_id, "route": route, **time})


def test_linked_servers_know_each_others_clocks() -> None:
    fabric = Fabric("hall", "attic", "barn")
    fabric.links(("hall", "attic"), ("attic", "barn"))
    fabric.settle()
    set_clock(fabric["attic"], 90.0)
    fabric["barn"].bus.link_clocks.ask()
    fabric["hall"].bus.link_clocks.ask()
    fabric.settle()
    for name in ("hall", "barn"):
        bus = fabric[name].bus
        (link,) = bus.links.all()
        found = bus.link_clocks.of(link.session_id)
        assert found is not None
        assert abs(found.ahead - 90) <= found.round_trip / 2 + 1e-6, name
        assert 0 < found.round_trip < 0.1
    (there, _) = fabric["attic"].bus.links.all()
    assert fabric["attic"].bus.link_clocks.of(there.session_id) is None  # It has not asked.


@settings(max_examples=sized(100))
@given(
    st.floats(-1e6, 1e6),
    st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), min_size=1, max_size=2 * MOST_ANSWERS),
    st.none() | st.floats(-1e5, 1e5).filter(lambda step: abs(step) > 10),
)
def test_an_answer_is_right_within_its_doubt(
    ahead: float, delays: list[tuple[float, float]], step: float | None
) -> None:
    """However long a ping and its answer take. If the clock is set, later answers count alone."""
    network = Network()
    server = network.server(directory=True)
    (link,) = network.bus.links.all()
    clocks = network.bus.link_clocks
    for now in (ahead, *([] if step is None else [ahead + step])):
        for there, back in delays:
            clocks.ask()
            network.reactor.advance(there)
            ping, time = pinged(server), format_time(network.bus.utc() + int(now * SECOND))
            network.reactor.advance(back)
            about = {"in-reply-to": ping["id"], "to": network.server_id, "route": [server.routing_id]}
            server.send({"event": "pong", "time": time, **about})
        found = clocks.of(link.session_id)
        assert found is not None
        assert abs(found.ahead - now) <= found.round_trip / 2 + 1e-5
        assert found.round_trip <= min(sum(each) for each in delays[-MOST_ANSWERS:]) + 1e-5


def test_only_an_answer_of_the_neighbour_to_the_last_ping_counts() -> None:
    network = Network()
    server = network.server(directory=True)
    (link,) = network.bus.links.all()
    clocks = network.bus.link_clocks
    clocks.ask()
    ping = pinged(server)
    assert (ping["to"], ping["route"]) == ("cellar", [network.server_id])
    about = {"event": "pong", "to": network.server_id, "in-reply-to": ping["id"], "time": "2023-11-14T22:13:20.000000Z"}
    for wrong in (
        {"route": ["tv", "cellar"]},
        {"in-reply-to": "other"},
        {"in-reply-to": [1]},
        {"time": 7},
        {"time": None},
    ):
        server.send({"route": ["cellar"], **about, **wrong})
        assert clocks.of(link.session_id) is None, wrong
    server.send({**about, "route": ["cellar"], "time": "yesterday"})
    server.send({**about, "route": ["cellar"]})
    assert clocks.of(link.session_id) is None  # It was answered already.
    clocks.ask()
    answer(network, server, pinged(server), 3.0)
    assert clocks.of(link.session_id) is not None
    server.connection.close()
    clocks.ask()
    assert clocks.of(link.session_id) is None


@pytest.mark.parametrize("is_bussrv", [True, False])
def test_servers_that_say_no_time_have_no_clock(is_bussrv: bool) -> None:
    """Older ones answer without it; others than bussrv are not asked: they might forward a ping."""
    network = Network()
    server = network.server(**({"directory": True} if is_bussrv else {}))
    network.bus.link_clocks.ask()
    pings = [each for each in server.heads() if each.get("event") == "ping"]
    assert len(pings) == is_bussrv
    for ping in pings:
        answer(network, server, ping, None)
    (link,) = network.bus.links.all()
    assert network.bus.link_clocks.of(link.session_id) is None
