"""Sessions that provide many services end in slices."""

from collections.abc import Callable
from itertools import pairwise

from bussrv import events as ev
from bussrv.bus.sessions.ending import MOST_ENDED
from bussrv.registry.changes.registry import MOST_TOGETHER
from tests.formats.network import Member, Network, drain
from tests.tables import each_row

MANY_SERVICES = 5 * MOST_ENDED


def be_closed(member: Member) -> None:
    member.connection.protocol.link.close("closed-by-operator")


def be_stopped(member: Member) -> None:
    member.connection.protocol.end("server-stopped", 2.0)


def say_rubbish(member: Member) -> None:
    member.connection.send_bytes(b"rubbish\0")


@each_row("way", [be_closed, be_stopped, say_rubbish], ids=lambda way: way.__name__)
def test_a_session_with_many_services_always_ends_in_slices(way: Callable[[Member], None]) -> None:
    network = Network()
    member, other = network.member(), network.member()
    for number in range(MANY_SERVICES):
        member.send({"event": "services/register", "name": f"tv{number}"})
    drain([member, other])
    protocol, state = member.connection.protocol, network.registry.state
    session_id, factory = protocol.session_id, network.factory("objects")
    gone: list[bool] = []
    protocol.gone().addCallback(lambda _: gone.append(True))
    way(member)
    left = [len(state.provided_by(session_id))]
    assert protocol.has_ended
    other.send({"event": "ping", "id": 1})
    assert "pong" in other.names()
    while session_id in state.sessions:
        # The stop of the server waits for the end of the session, not only for that of the connection.
        assert gone == []
        assert protocol in factory.protocols
        network.reactor.advance(0)
        left.append(len(state.provided_by(session_id)))
    assert max(before - after for before, after in pairwise([MANY_SERVICES, *left])) == MOST_ENDED
    assert gone == [True]
    assert protocol not in factory.protocols
    (closed,) = network.events(ev.SessionClosed)
    ended = network.events(ev.ServiceUnregistered)
    assert len(ended) == MANY_SERVICES
    assert {each.reason for each in ended} == {closed.reason}


def test_all_services_are_unregistered_in_several_changes() -> None:
    network = Network()
    member, other = network.member(), network.member()
    for number in range(MANY_SERVICES):
        member.send({"event": "services/register", "name": f"tv{number}"})
    drain([member, other])
    provided = network.registry.state.provided_by(member.connection.protocol.session_id)
    network.journal.hold()
    member.send({"event": "services/unregister", "id": "all"})
    changes = 0
    while provided:
        before = len(provided)
        network.journal.release(1)
        assert before - len(provided) <= MOST_TOGETHER
        changes += 1
    network.journal.release()
    assert member.only_reply()["in-reply-to"] == "all"
    assert changes == -(-MANY_SERVICES // MOST_TOGETHER)
