"""Scripts of attackers and faulty clients. A script takes a few actions at a time, and yields the time until the next.

A server that crashed meanwhile has closed their sessions: a script goes on with what is left of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bussrv import events as ev
from bussrv.counts.throttle import Throttle
from bussrv.errors import OverLimit
from bussrv.settings import Settings
from bussrv.synth.attacker import Attacker

SECOND = 1_000_000.0
"""In microseconds, as all pauses are."""

GUESSES_PER_CONNECTION = 3
"""After so many failures the server closes an SPP connection."""

ATTACKED = "admin"
"""The account that is attacked."""

MOST_CONNECTS = 20
"""The value of ``--max-connects`` during a flood."""

STORMERS = 12
"""How many clients a machine has whose clients come back all at once."""


def guess_passwords(attacker: Attacker) -> Iterator[float]:
    """Many connections of SPP, with as many wrong passwords as each of them may have, and one more a while later."""
    for _ in range(attacker.random.randint(25, 40)):
        yield from _guess(attacker, GUESSES_PER_CONNECTION, "authentication-failed")
    yield attacker.pause(60, 300)
    yield from _guess(attacker, 1, "client-closed")


def _guess(attacker: Attacker, guesses: int, reason: str) -> Iterator[float]:
    session_id = attacker.connect("spp")
    for _ in range(guesses):
        yield attacker.pause(0.002, 0.02)
        session = attacker.place.state.sessions.get(session_id)
        if session is None:
            return
        attacker.attack.tried += 1
        tried = {**session.about(), "claimed": ATTACKED}
        attacker.cause(ev.AuthFailed(method="password", reason="bad-credentials", **tried))
    attacker.leave(session_id, reason)


def flood(attacker: Attacker) -> Iterator[float]:
    """Many more connections at once than the server lets in, and some more a while later. None of them subscribes."""
    clock = attacker.place.clock
    admission = Throttle(MOST_CONNECTS, MOST_CONNECTS, lambda: clock.utc() / SECOND)
    for connects in (200, 2 * MOST_CONNECTS):
        sessions = []
        for _ in range(connects):
            yield attacker.pause(0.001, 0.005)
            attacker.attack.tried += 1
            if admission.admit(None) is None:
                _refuse_connection(attacker)
            else:
                sessions.append(attacker.connect("objects"))
        yield 30 * SECOND
        for session_id in sessions:
            yield attacker.pause(0.001, 0.005)
            attacker.leave(session_id, "subscribe-timeout")
        yield attacker.pause(60, 120)


def _refuse_connection(attacker: Attacker) -> None:
    message = "more new sessions from one address than the limit allows"
    refusal = OverLimit("too-many-connects", message, "max-connects", MOST_CONNECTS)
    attacker.cause(ev.limit_reached(refusal, protocol="objects", peer=attacker.peer()))


def storm_after_crash(attacker: Attacker) -> Iterator[float]:
    """The server crashes, and the clients of one machine are back at once, again and again."""
    for _ in range(STORMERS):
        attacker.join()
    yield attacker.pause(60, 180)
    attacker.place.crash()
    yield from _storm(attacker)


def storm_after_link_loss(attacker: Attacker) -> Iterator[float]:
    """A linked server is lost, and the clients that it had come here instead, again and again."""
    link = attacker.link(f"far-server-{attacker.number}")
    yield attacker.pause(60, 180)
    attacker.leave(link, "connection-lost")
    yield from _storm(attacker)


def _storm(attacker: Attacker) -> Iterator[float]:
    waves = attacker.random.randint(5, 7)
    for wave in range(waves):
        sessions = []
        for _ in range(STORMERS):
            yield attacker.pause(0.01, 0.3)
            attacker.attack.tried += 1
            sessions.append(attacker.join())
        yield attacker.pause(2, 6) if wave < waves - 1 else attacker.pause(300, 600)
        for session_id in sessions:
            attacker.leave(session_id, "connection-lost" if wave < waves - 1 else "client-closed")


def flap(attacker: Attacker) -> Iterator[float]:
    """A device registers its service and loses it again and again, and sometimes its connection as well."""
    service = attacker.attack.service = f"siren/{attacker.number}"
    for _ in range(5):
        session_id = attacker.join()
        for last in (False, False, False, False, True):
            attacker.provide(session_id, service)
            yield attacker.pause(5, 15)
            if not last and attacker.is_there(session_id):
                attacker.place.registry.unregister_service(session_id, service)
                yield attacker.pause(1, 8)
        attacker.leave(session_id, "connection-lost")
        yield attacker.pause(1, 8)


def steal_identity(attacker: Attacker) -> Iterator[float]:
    """A client asks for the routing id of another one until that one is gone for longer than its id is held."""
    attack = attacker.attack
    routing_id = attack.routing_id = f"gate-{attacker.number}"
    owner = attacker.join(routing_id, attacker.other())
    yield attacker.pause(30, 90)
    thief = attacker.join()
    for _ in range(3):
        yield attacker.pause(5, 30)
        attack.tried += 1
        attacker.identify(thief, routing_id)
    attacker.leave(owner, "connection-lost")
    hold = Settings().routing_id_hold
    yield attacker.pause(hold + 1, hold + 10)
    attack.tried += 1
    attacker.identify(thief, routing_id)
    yield attacker.pause(1, 5)
    # Too late: now it is another one's.
    owner = attacker.join(routing_id, attacker.other())
    yield attacker.pause(300, 600)
    attacker.leave(owner, "client-closed")
    attacker.leave(thief, "client-closed")


def wait_in_vain(attacker: Attacker) -> Iterator[float]:
    """Devices subscribe to a service that nobody ever provides, renew that, and are heard of no more one day."""
    service = attacker.attack.service = f"ghost/{attacker.number}"
    sessions = [attacker.connect("inbus", persistent=True) for _ in range(3)]
    for _ in range(4):
        for session_id in sessions:
            if attacker.is_there(session_id):
                attacker.attack.tried += 1
                attacker.place.registry.subscribe(session_id, service, {"version": 2})
            yield attacker.pause(1, 60)
    yield attacker.pause(120, 300)
    for session_id in sessions:
        if attacker.is_there(session_id):
            attacker.place.expire(session_id)


def provide_in_vain(attacker: Attacker) -> Iterator[float]:
    """A client provides a service that nobody wants."""
    service = attacker.attack.service = f"spare/{attacker.number}"
    session_id = attacker.join()
    attacker.provide(session_id, service)
    yield attacker.pause(300, 900)
    attacker.leave(session_id, "client-closed")


KINDS: dict[str, Callable[[Attacker], Iterator[float]]] = {
    "password-guessing": guess_passwords,
    "connect-flood": flood,
    "storm-after-crash": storm_after_crash,
    "storm-after-link-loss": storm_after_link_loss,
    "flapping-service": flap,
    "identity-theft": steal_identity,
    "unprovided-service": wait_in_vain,
    "unwanted-service": provide_in_vain,
}
"""The kinds of attacks and other trouble, and what is done."""
