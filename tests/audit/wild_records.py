"""Records that no sound server would write in such an order; a timeline has to cope with them."""

from __future__ import annotations

from random import Random

from bussrv import events as ev
from bussrv.journal.record import Record
from bussrv.values import ModeInterest, RuleInterest

MOMENT = 1_800_000_000_000_000
"""Comes somewhere in the records of every server, UTC microseconds."""

STEP = 1_250_000

_REASONS = (None, "client-closed", "server-crashed", "link-lost", "replaced", "server-stopped")
_INTERESTS = (None, ModeInterest("no_echo", ("text/*",)), RuleInterest(("*", "!image/*")))


def wild(server: str, seed: int, count: int = 40, *, steady: bool = False) -> list[Record]:
    """The records of one server; some of its clocks go back now and then.

    :param steady: whether it has a clock that does not.
    """
    random = Random(seed)
    boot, records = 1, []
    cut = random.randrange(count + 1)
    for seq in range(1, count + 1):
        event = _event(random)
        if isinstance(event, ev.ServerStarted):
            boot += 1
        jump = 0 if steady or random.random() < 0.8 else random.randrange(-4, 5) * STEP
        time = MOMENT + (seq - cut) * STEP + jump
        records.append(Record(seq, time, STEP * seq, server, f"{server}-{boot}", event))
    return records


def _event(random: Random) -> ev.Event:
    about = {
        "session": random.choice("abcd"),
        "routing_id": random.choice(("tv-3", "x", "y", "y", None)),
        "actor": random.choice((None, None, "ann")),
        "claimed": random.choice((None, None, "bob")),
        "peer": random.choice(("192.0.2.1:5", "[::1]:7", "192.0.2.9")),
        "protocol": "objects",
    }
    service = random.choice(("tv", "radio"))
    reason = random.choice(_REASONS)
    options = random.choice((None, {"version": 1}, {"version": 2}))
    makes = (
        lambda: ev.SessionOpened(**about, persistent=random.random() < 0.5, home=random.choice((None, "attic"))),
        lambda: ev.SessionOpened(**about),
        lambda: ev.SessionOpened(**about, persistent=True, expiry=STEP),
        lambda: ev.SessionLeft(**about, until=MOMENT + random.randrange(-9, 9) * STEP, reason=reason),
        lambda: ev.SessionResumed(**about, expiry=STEP),
        lambda: ev.SessionIdentified(**about, routing_ids=random.choice(((), ("doors", "x"))), name="panel"),
        lambda: ev.AuthSucceeded(**about, method="password"),
        lambda: ev.SessionClosed(**about, duration=5, reason=reason),
        lambda: ev.ServiceRegistered(**about, service=service),
        lambda: ev.ServiceRegistered(**about, service=service),
        lambda: ev.ServiceUnregistered(**about, service=service, reason=reason),
        lambda: ev.ServiceUnregistered(**about, service=service, reason=reason),
        lambda: ev.SubscriptionAdded(
            **about, service=random.choice((None, service)), interest=random.choice(_INTERESTS), options=options
        ),
        lambda: ev.SubscriptionAdded(**about, service=service, options=options),
        lambda: ev.SubscriptionRemoved(**about, service=random.choice((None, service)), reason=reason),
        lambda: ev.SubscriptionRenewed(**about, service=random.choice((None, service)), options=options),
        lambda: ev.ServiceRefused(**about, service=service, reason="reserved-name", suppressed=3),
        lambda: ev.LimitReached(limit="max-sessions", value=3, peer="192.0.2.9"),
        lambda: ev.LinkUp(**about),
        lambda: ev.LinkDown(**about, reason="connection-lost"),
        lambda: ev.LinkGap(**about, service=service, origin="attic", lost=random.choice((None, 3)), suppressed=2),
        lambda: ev.ServerStarted(version="1"),
        lambda: ev.ServerRecovered(sessions_closed=1),
        ev.ServerStopped,
    )
    return random.choice(makes)()
