"""Promises about limits: each is kept, counted and journaled, and what a client may not use, it does not get."""

from __future__ import annotations

import tracemalloc

from bussrv import events as ev
from bussrv.net.session.input import FREE_INPUT
from bussrv.testing.conformance.adapter import Login, shapes_of
from bussrv.testing.conformance.lab import Lab, Visitor, confirmed
from bussrv.testing.conformance.trial import Promise, Trial, promise

TOTAL = 300_000
"""A limit of the unfinished input of all clients together, in bytes."""

CHUNK = 16_000
MARGIN = 1.5
"""How much more memory than the limit may be in use: readers may hold a chunk twice for a moment."""


def _check_journaled(trial: Trial, lab: Lab, limit: str) -> None:
    reached = [each for each in lab.events(ev.LimitReached) if (each.limit, each.protocol) == (limit, trial.name)]
    trial.require(
        reached and all(each.session and each.peer and each.value == 2 for each in reached),
        f"a client reached the limit {limit} of 2, and the journal says {reached!r} instead of who it was",
    )
    counted = [reason for reason in lab.counters if reason == reached[0].reason]
    trial.require(counted, f"a client reached the limit {limit}, and that is not counted")


@promise("publish")
def services_are_limited(trial: Trial) -> None:
    """A client provides no more services than the limit, and is told nothing positive beyond it."""
    lab = trial.lab(max_services=2)
    visitor = trial.client(lab)
    for number in range(4):
        name, client = f"kit/{number}", visitor.client
        said = visitor.tell(client.provide(name) if trial.adapter.can("provide") else client.publish(name, b"x"))
        past = number >= 2 and "provide" in confirmed(said)
        trial.require(not past, f"a client that has 2 services, its limit, asks for another one and is told {said!r}")
        names = [name for name in lab.state.services if name.startswith("kit/")]
        fits = len(names) == min(number + 1, 2) or (number >= 2 and not visitor.is_open)
        trial.require(fits, f"with a limit of 2 services, a client that asks for {number + 1} provides {len(names)}")
    if "kit/3" not in names:  # A format may take the place of the service that was unused longest.
        _check_journaled(trial, lab, "max-services")


@promise()
def subscriptions_are_limited(trial: Trial) -> None:
    """A client has no more subscriptions than the limit, and is told nothing positive beyond it."""
    lab = trial.lab(max_subscriptions=2)
    provider = trial.provider(lab)
    for number in range(4):
        provider.provide(f"kit/{number}")
    visitor = trial.client(lab)
    for number in range(4):
        said = visitor.subscribe(f"kit/{number}")
        past = number >= 2 and confirmed(said)
        trial.require(not past, f"a client with 2 subscriptions, its limit, asks for another one and is told {said!r}")
    _check_journaled(trial, lab, "max-subscriptions")
    for number in range(4):
        provider.publish(f"kit/{number}", b"on")
    got = {service for service, payload in visitor.published() if payload}
    trial.require(
        len(got) <= 2, f"with a limit of 2 subscriptions, a client is given publications on {len(got)} services"
    )


@promise("stream")
def sessions_are_limited(trial: Trial) -> None:
    """Clients beyond the limit of sessions are turned away, and there is room again when others leave."""
    lab = trial.lab(max_sessions=3)
    visitors = [trial.client(lab) for _ in range(5)]
    lab.wait(lab.bus.settings.close_timeout + 1)
    stay = sum(each.is_open for each in visitors)
    trial.require(stay == 3, f"with a limit of 3 sessions, {stay} of 5 clients stay connected")
    visitors[0].leave()
    later = trial.client(lab)
    trial.require(later.is_open, "a client is turned away although another one has left")


def _shapes(trial: Trial) -> range:
    return range(len(shapes_of(trial.adapter.client(), 100)))


def _memory_after(lab: Lab, visitors: list[Visitor], each_sends: int, shape: int) -> int:
    """How much more memory is in use after clients have sent messages without end, of one of their shapes."""
    data = [shapes_of(visitor.client, each_sends)[shape] for visitor in visitors]
    tracemalloc.start()
    try:
        begun = tracemalloc.get_traced_memory()[0]
        for start in range(0, each_sends, CHUNK):
            for visitor, whole in zip(visitors, data, strict=True):
                if visitor.is_open:
                    visitor.give(whole[start : start + CHUNK])
            lab.settle()
        return tracemalloc.get_traced_memory()[0] - begun
    finally:
        tracemalloc.stop()


@promise("stream")
def unfinished_input_is_limited(trial: Trial) -> None:
    """All unfinished messages together take no more memory than the limit; who holds most is ended."""
    for shape in _shapes(trial):
        _check_unfinished(trial, shape)


def _check_unfinished(trial: Trial, shape: int) -> None:
    lab = trial.lab(max_inbound_total=TOTAL)
    visitors = [trial.client(lab) for _ in range(5)]
    held = _memory_after(lab, visitors, TOTAL // 2, shape)
    stay = sum(each.is_open for each in visitors)
    trial.require(
        held <= TOTAL * MARGIN,
        f"{stay} clients that never finish a message hold {held} bytes, although the limit for all is {TOTAL}: "
        f"the server counts {lab.bus.streams.inbound.total} of them",
    )
    for each in visitors:
        each.leave()
    left = lab.bus.streams.inbound.total
    trial.require(left == 0, f"{left} bytes of unfinished input are still counted after the clients have left")


def _before_login(trial: Trial, login: Login | None, begins: bool, who: str, shape: int) -> None:
    lab = trial.lab(asks=True)
    visitor = lab.visitor(trial.name, login)
    if begins:
        visitor.join()
    size = 4 * FREE_INPUT
    held = _memory_after(lab, [visitor], size, shape) if visitor.is_open else 0
    trial.require(
        not visitor.is_open or held <= 2 * FREE_INPUT,
        f"{who} is still connected after {size} bytes of a message without end, of which the server holds {held}; "
        f"{FREE_INPUT} are enough for a login",
    )


@promise("stream", "login")
def strangers_send_little(trial: Trial) -> None:
    """Before its login, a client makes the server hold no more than 64 KiB."""
    for shape in _shapes(trial):
        _before_login(trial, None, False, "a client that has not logged in", shape)
        _before_login(trial, Login("ann", "wrong"), True, "a client whose login failed", shape)


PROMISES: tuple[Promise, ...] = (
    services_are_limited,
    subscriptions_are_limited,
    sessions_are_limited,
    unfinished_input_is_limited,
    strangers_send_little,
)
