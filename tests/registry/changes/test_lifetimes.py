"""How long sessions were open, whatever is done to the wall clock meanwhile."""

from bussrv import events as ev
from bussrv.registry.changes.write_ahead import Lifetimes
from bussrv.registry.state.session import Session
from bussrv.values import Traffic
from tests.registry.support import Bench
from tests.tables import each_row

HOUR = 3600 * 1_000_000


@each_row("set_by", [-HOUR, HOUR])
def test_a_session_lasted_as_long_as_it_did(set_by):
    bench = Bench()
    session = bench.open()
    bench.clock.advance(5)
    bench.clock.now_utc += set_by
    bench.clock.advance(2)
    bench.registry.close_session(session, "client-closed", Traffic())
    (closed,) = bench.records(ev.SessionClosed)
    assert closed.duration == 7_000_000


def test_a_session_of_another_server_too():
    bench = Bench()
    session, present = bench.registry.open_remote("attic", "spp", "r1", "10.0.0.2:7890")
    assert present.called
    bench.clock.advance(5)
    bench.clock.now_utc -= HOUR
    bench.registry.close_session(session, "unreachable", Traffic())
    (closed,) = bench.records(ev.SessionClosed)
    assert closed.duration == 5_000_000


@each_row(("opened_ago", "duration"), [(HOUR, HOUR), (-HOUR, 0)])
def test_sessions_of_an_earlier_boot_go_by_the_wall_clock(opened_ago, duration):
    clock = Bench().clock
    session = Session(
        id="old.1", protocol="inbus", routing_id="r", peer="10.0.0.1:1", opened=clock.now_utc - opened_ago
    )
    assert Lifetimes(clock).end(session) == duration
