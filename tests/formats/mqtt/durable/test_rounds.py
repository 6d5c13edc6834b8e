"""Rounds: what is told of them, and when."""

from __future__ import annotations

import pytest

from bussrv.errors import SpoolUnavailable
from bussrv.formats.mqtt.durable.rounds import Rounds
from bussrv.spool.entries import Append, Claim
from tests.formats.network import Network


def entry(payload: bytes) -> Append:
    return Append(owner="ann", kind="queue", payload=payload, or_drop=True)


@pytest.mark.parametrize("is_refused", [False, True])
def test_whoever_waits_for_a_round_waits_for_all_before_it(is_refused: bool) -> None:
    """Also for one without changes, and for one that is refused at once since too much waits."""
    network = Network()
    spool = network.bus.spool
    told: list[object] = []
    spool.write([Claim(owner="ann", address="10.0.0.1")])
    network.reactor.advance(0)
    rounds = Rounds(network.bus, network.reactor)
    spool.delay = 1.0  # type: ignore[attr-defined]
    rounds.append(entry(b"first"), told.append)
    network.reactor.advance(0)
    done = rounds.durable()
    if is_refused:
        rounds.append(entry(b"second"), told.append)
        refuse = SpoolUnavailable("too much waits")
        spool.append_changes = lambda changes, waiter: waiter.errback(refuse)  # type: ignore[method-assign]
    done.addBoth(lambda outcome: told.append(outcome and outcome.type))
    network.reactor.advance(0)
    assert told == []
    network.reactor.advance(1)
    network.reactor.advance(0)
    assert told == ([1, 0, SpoolUnavailable] if is_refused else [1, None])
