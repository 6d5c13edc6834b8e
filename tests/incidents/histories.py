"""Histories of servers, drawn: attacks, crashes, contested ids, durable sessions, and services that come and go."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.journal.record import Record

START = 1_800_000_000_000_000
SECOND = 1_000_000

ADDRESSES = ("192.0.2.1:5", "192.0.2.2:6", "[2001:db8::1]:7", "192.0.2.9", None)
USERS = ("ann", "ben", None)
IDS = ("tv", "hall", None)
SERVICES = ("lamp", "door")
REASONS = (None, "client-closed", "connection-lost", "unreachable", "slow-consumer")

STEPS = st.one_of(
    st.tuples(
        st.just("refuse"),
        st.sampled_from(("auth.failed", "auth.failed", "access.denied", "limit.reached", "service.refused")),
        st.sampled_from(ADDRESSES),
        st.sampled_from(USERS),
        st.sampled_from((1, 2, 3, 4, 6, 10)),
        st.sampled_from((None, None, 1, 9)),
    ),
    st.tuples(
        st.just("open"),
        st.sampled_from(ADDRESSES),
        st.sampled_from(IDS),
        st.sampled_from(("said", "identified", "durable", "far")),
        st.sampled_from((1, 1, 1, 5, 10)),
    ),
    st.tuples(st.just("close"), st.integers(0, 9), st.sampled_from(REASONS)),
    st.tuples(st.just("register"), st.integers(0, 9), st.sampled_from(SERVICES)),
    st.tuples(st.just("unregister"), st.integers(0, 9), st.sampled_from(SERVICES), st.sampled_from(REASONS)),
    st.tuples(st.just("leave"), st.integers(0, 9)),
    st.tuples(st.just("resume"), st.integers(0, 9), st.sampled_from(USERS)),
    st.tuples(st.just("wait"), st.sampled_from((0, 7, 30, 61, 90))),
    st.tuples(st.just("pace"), st.sampled_from((0, SECOND // 4))),
    st.tuples(st.just("boot"), st.booleans()),
    st.tuples(
        st.just("link"),
        st.sampled_from(("attic", "barn")),
        st.sampled_from((None, "connection-lost", "idle-timeout", "server-stopped", "server-crashed")),
        st.sampled_from((0, 9, 10, 30)),
    ),
    st.tuples(st.just("forget"), st.sampled_from(("attic", "barn"))),
    st.tuples(
        st.just("clock"),
        st.sampled_from(("attic", "barn")),
        st.sampled_from((0, 1_999_999, 2_000_100, -3_000_000)),
        st.sampled_from((0, 9, 10, 30)),
    ),
    st.tuples(st.just("witness"), st.sampled_from(("w/1", "w/2")), st.sampled_from((None, None, "away", "422"))),
    # What chance alone would bring about too seldom.
    st.tuples(st.just("guess"), st.sampled_from(("ann", "ben")), st.integers(2, 4), st.integers(1, 5)),
    st.tuples(
        st.just("lose"),
        st.sampled_from(SERVICES),
        st.sampled_from(REASONS),
        st.sampled_from((1, 59, 60, 61, 120)),
        st.booleans(),
    ),
    st.tuples(st.just("say"), st.integers(0, 9), st.sampled_from(IDS)),
    st.tuples(st.just("steal"), st.sampled_from(IDS[:2]), st.sampled_from((0, 30)), st.booleans(), st.integers(0, 3)),
    st.tuples(st.just("take_over"), st.sampled_from(USERS), st.integers(1, 2)),
)

HISTORIES = st.lists(STEPS, min_size=1, max_size=25)

EVERY_KIND: list[list[tuple[Any, ...]]] = [
    [("guess", "ann", 3, 4)],
    [("guess", "ann", 3, 10)],
    [("refuse", "access.denied", ADDRESSES[0], "ann", 10, None)],
    [("boot", False)],
    [("open", None, "tv", "said", 2)],
    [("steal", "tv", 30, True, 1)],
    [("take_over", "ben", 1)],
    [("lose", "lamp", "connection-lost", 61, True)],
    [("lose", "lamp", "connection-lost", 61, False)],
    [("link", "attic", "connection-lost", 10)],
    [("link", "attic", "connection-lost", 10), ("link", "attic", None, 0)],
    [("link", "attic", "connection-lost", 10), ("forget", "attic"), ("wait", 30), ("link", "barn", None, 0)],
    [("clock", "attic", -3_000_000, 10)],
    [("clock", "attic", 2_000_100, 10), ("clock", "attic", 0, 0)],
    [
        ("clock", "attic", 2_000_100, 10),
        ("link", "attic", "server-stopped", 0),
        ("clock", "attic", 3_000_000, 9),
        ("clock", "attic", 0, 0),
    ],
    [("witness", "w/1", "away")],
    [("witness", "w/1", "422"), ("witness", "w/1", None)],
]
"""Histories with an incident each."""


class History:
    """The records of a server. Sound: no closed session does anything, and each boot closes what was left open."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.records: list[Record] = []
        self._boots = 0
        self._sessions = 0
        self._time = START
        self._step = SECOND // 4
        self._open: dict[str, dict[str, Any]] = {}
        self._away: set[str] = set()
        self._providing: dict[tuple[str, str], None] = {}
        self._boot()

    def take(self, steps: list[tuple[Any, ...]]) -> list[Record]:
        """Let that happen."""
        for name, *how in steps:
            getattr(self, f"_{name}")(*how)
        return self.records

    def _write(self, event: ev.Event) -> None:
        self._time += self._step
        seq = len(self.records) + 1
        boot = f"{self.server}-{self._boots}"
        self.records.append(Record(seq, self._time, self._time - START, self.server, boot, event))

    def _pace(self, step: int) -> None:
        """So much time passes before each record from now on."""
        self._step = step

    def _wait(self, seconds: int) -> None:
        self._time += seconds * SECOND

    def _boot(self, stops: bool = False) -> None:
        if stops:
            self._write(ev.ServerStopped())
        self._boots += 1
        self._write(ev.ServerStarted(version="1"))
        if self._boots > 1 and not stops:
            self._write(ev.ServerRecovered(sessions_closed=len(self._open)))
        for session in tuple(self._open):
            self._end(session, "server-crashed")

    def _witness(self, name: str, refusal: str | None) -> None:
        """A witness cosigns, or says why not."""
        if refusal is None:
            self._write(ev.SealWitnessed(witness=name, size=len(self.records)))
        else:
            self._write(ev.SealRefused(witness=name, size=len(self.records), message=refusal))

    def _link(self, name: str, reason: str | None, seconds: int) -> None:
        """A link comes, or (with a reason) goes, and so much time passes before the next record."""
        self._write(ev.LinkUp(routing_id=name) if reason is None else ev.LinkDown(routing_id=name, reason=reason))
        self._wait(seconds)
        self._write(ev.ConfigReloaded())

    def _forget(self, name: str) -> None:
        self._write(ev.LinkForgotten(routing_id=name))

    def _clock(self, name: str, ahead: int, seconds: int) -> None:
        """The clock of a server is found to differ, or not to, and so much time passes before the next record."""
        self._write(ev.LinkClock(routing_id=name, ahead=ahead, doubt=100))
        self._wait(seconds)
        self._write(ev.ConfigReloaded())

    def _refuse(self, event: str, peer: str | None, user: str | None, times: int, suppressed: int | None) -> None:
        about: dict[str, Any] = {"peer": peer, "suppressed": suppressed, "protocol": "spp"}
        for _ in range(times):
            self._write({
                "auth.failed": lambda: ev.AuthFailed(claimed=user, reason="bad-credentials", **about),
                "access.denied": lambda: ev.AccessDenied(action="send", target="lamp", rule="1", actor=user, **about),
                "limit.reached": lambda: ev.LimitReached(limit="max-sessions", value=3, **about),
                "service.refused": lambda: ev.ServiceRefused(service="bus/x", claimed=user, **about),
            }[event]())  # fmt: skip

    def _open_one(self, peer: str | None, routing_id: str | None, how: str) -> None:
        self._sessions += 1
        session = f"{self.server}-{self._boots}.{self._sessions}"
        self._open[session] = about = {"session": session, "protocol": "objects", "peer": peer}
        own: dict[str, Any] = {
            "said": {"routing_id": routing_id},
            "identified": {},
            "durable": {"routing_id": routing_id, "persistent": True, "expiry": 9, "actor": "ann"},
            "far": {"routing_id": routing_id, "home": "attic"},
        }[how]
        self._write(ev.SessionOpened(**about, **own))
        if how == "identified":
            self._write(ev.SessionIdentified(**about, routing_id=routing_id))
        about["durable"] = how == "durable"

    def _open_some(self, peer: str | None, routing_id: str | None, how: str, times: int) -> None:
        for _ in range(times):
            self._open_one(peer, routing_id, how)

    def _say(self, number: int, routing_id: str | None) -> None:
        """A session says again who it is, perhaps with another id."""
        session = self._pick(number)
        if session is not None:
            self._identify(session, routing_id or session)

    def _identify(self, session: str, routing_id: str) -> None:
        about = self._open[session]
        own = {name: about[name] for name in ("session", "protocol", "peer")}
        self._write(ev.SessionIdentified(**own, routing_id=routing_id))

    def _steal(self, routing_id: str, seconds: int, comes_back: bool, further: int) -> None:
        """A session that is there before takes the id of one that ends, and perhaps gives it away again."""
        self._open_one("192.0.2.5:1", None, "said")
        thief = [*self._open][-1]
        self._open_one("192.0.2.6:1", routing_id, "said")
        owner = [*self._open][-1]
        self._wait(seconds)
        self._end(owner, "client-closed")
        self._identify(thief, routing_id)
        self._open_some("192.0.2.6:1", routing_id, "identified", further)
        if comes_back:
            self._identify(thief, "thief")
            self._open_one("192.0.2.6:1", routing_id, "said")
        self._identify(thief, routing_id)

    def _pick(self, number: int, *, away: bool = False) -> str | None:
        found = [each for each in self._open if (each in self._away) == away]
        return found[number % len(found)] if found else None

    def _close(self, number: int, reason: str | None) -> None:
        session = self._pick(number)
        if session is not None:
            self._end(session, reason)

    def _end(self, session: str, reason: str | None) -> None:
        for owner, service in tuple(self._providing):
            if owner == session:
                self._write(ev.ServiceUnregistered(session=session, service=service, reason=reason))
                del self._providing[owner, service]
        del self._open[session]
        self._away.discard(session)
        self._write(ev.SessionClosed(session=session, duration=1, reason=reason))

    def _register(self, number: int, service: str) -> None:
        session = self._pick(number)
        if session is not None and (session, service) not in self._providing:
            self._providing[session, service] = None
            self._write(ev.ServiceRegistered(session=session, service=service))

    def _unregister(self, number: int, service: str, reason: str | None) -> None:
        owners = [session for session, provided in self._providing if provided == service]
        if owners:
            session = owners[number % len(owners)]
            del self._providing[session, service]
            self._write(ev.ServiceUnregistered(session=session, service=service, reason=reason))

    def _leave(self, number: int) -> None:
        session = self._pick(number)
        if session is None or not self._open[session]["durable"]:
            return
        for owner, service in tuple(self._providing):
            if owner == session:
                self._unregister_of(owner, service)
        self._away.add(session)
        self._write(ev.SessionLeft(session=session, until=self._time + SECOND, reason="connection-lost"))

    def _guess(self, user: str, addresses: int, times: int) -> None:
        for peer in ADDRESSES[:addresses]:
            self._refuse("auth.failed", peer, user, times, None)

    def _lose(self, service: str, reason: str | None, seconds: int, comes_back: bool) -> None:
        """A provider comes and goes; maybe another one comes in its place."""
        for is_again in range(1 + comes_back):
            self._open_one("192.0.2.3:1", None, "said")
            session = [*self._open][-1]
            self._providing[session, service] = None
            self._write(ev.ServiceRegistered(session=session, service=service))
            if not is_again:
                self._end(session, reason)
                self._wait(seconds)
        self._write(ev.ConfigReloaded())

    def _take_over(self, user: str | None, times: int) -> None:
        """A user comes back to a session, which is perhaps the one of another."""
        self._open_one("192.0.2.4:1", None, "durable")
        number = [each for each in self._open if each not in self._away].index([*self._open][-1])
        for _ in range(times):
            self._leave(number)
            self._resume([each for each in self._open if each in self._away].index([*self._open][-1]), user)

    def _unregister_of(self, session: str, service: str) -> None:
        del self._providing[session, service]
        self._write(ev.ServiceUnregistered(session=session, service=service, reason="connection-lost"))

    def _resume(self, number: int, user: str | None) -> None:
        session = self._pick(number, away=True)
        if session is not None:
            self._away.discard(session)
            self._write(ev.SessionResumed(session=session, expiry=9, actor=user, peer="192.0.2.7:1"))


def records(server: str, steps: list[tuple[Any, ...]]) -> list[Record]:
    """The records of a drawn history."""
    named = [("open_some", *how) if name == "open" else (name, *how) for name, *how in steps]
    return History(server).take(named)
