"""A time-out that counts only the time in which the client is waited for."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from bussrv.net.transport.patience import Patience
from tests.formats.network import Member, Network
from tests.tables import each_row

LASTS = 10


class Turns(Clock):
    """Calls what is due when a turn begins, and nothing that comes up meanwhile, as a reactor does."""

    def advance(self, amount: float) -> None:
        self.rightNow += amount
        for call in [each for each in self.calls if each.getTime() <= self.rightNow]:
            if call.active():
                self.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)


STEPS = st.lists(st.one_of(st.sampled_from(["hold", "release", "renew"]), st.integers(1, 4)), max_size=30)


@given(STEPS)
def test_it_runs_out_when_it_was_not_held_or_renewed_for_so_long(steps: list[str | int]) -> None:
    clock = Clock()
    ran_out: list[float] = []
    patience = Patience(LASTS, lambda: ran_out.append(clock.seconds()), lambda: False, clock)
    holds = waited = 0
    for step in steps:
        if step == "hold":
            patience.hold()
            holds += 1
        elif step == "release" and holds:
            patience.release()
            holds -= 1
        elif step == "renew":
            patience.renew()
            waited = 0
        elif isinstance(step, int):
            clock.advance(step)
            waited += step if not holds else 0
        clock.advance(0)
        assert bool(ran_out) == (waited >= LASTS)
        if ran_out:
            return
    patience.end()
    for _ in range(holds):
        patience.release()
    clock.advance(100)
    assert (ran_out, clock.getDelayedCalls()) == ([], [])


def test_what_was_sent_in_time_counts_when_the_server_is_late() -> None:
    """The reactor calls first and reads then: after a long turn, all time-outs seem to be over."""
    network = Network(subscribe_timeout=LASTS, reactor=Turns())
    late, silent = (Member(network.connect("objects")) for _ in range(2))
    network.reactor.advance(10 * LASTS)
    late.send({"event": "routing/subscribe"})
    for _ in range(3):
        network.reactor.advance(0)
    assert (late.connection.is_open, silent.connection.is_open) == (True, False)


def test_what_renews_it_in_time_counts_when_the_server_is_late() -> None:
    clock = Turns()
    ran_out: list[float] = []
    patience = Patience(LASTS, lambda: ran_out.append(clock.seconds()), lambda: False, clock)
    clock.advance(10 * LASTS)
    patience.renew()
    for seconds in (0, LASTS - 1, 0, 0):
        clock.advance(seconds)
    assert ran_out == []
    for seconds in (1, 0, 0):
        clock.advance(seconds)
    assert ran_out == [11 * LASTS]


@each_row("name", ["objects", "business"])
def test_the_time_that_the_disk_takes_is_not_the_clients(name: str) -> None:
    network = Network(subscribe_timeout=LASTS)
    client = Member(network.connect(name))
    events = {"objects": "routing/subscribe", "business": "client/register"}
    network.reactor.advance(LASTS - 1)
    network.journal.hold()
    client.send({"event": events[name], "id": 1})
    network.reactor.advance(100 * LASTS)
    assert client.connection.is_open
    network.journal.fail("the disk is full")
    network.journal.release()
    assert client.heads()[0]["reason"] == "journal-unavailable"
    network.reactor.advance(0.9)
    assert client.connection.is_open
    network.reactor.advance(0.2)
    network.reactor.advance(0)
    assert not client.connection.is_open
