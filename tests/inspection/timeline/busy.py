"""Records of a sound server whose few clients come, go, leave, return and replace each other all the time, and that
crashes now and then: nearly every record explains another one.
"""

from __future__ import annotations

from random import Random
from typing import Any

from bussrv import events as ev
from bussrv.journal.record import Record
from tests.audit.journals import START, STEP, Writer

CLIENTS = ("tv-1", "tv-2", "panel")
SERVICES = ("tv", "radio")


def busy(seed: int, count: int = 60) -> list[Record]:
    """About ``count`` records. A client has the same names in all of its sessions."""
    server = _Server(Random(seed))
    while len(server.writer.records) < count:
        server.act()
    return server.writer.records


class _Server:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.writer = Writer("busy")
        self.sessions: dict[str, dict[str, Any]] = {}
        self.held: dict[str, set[tuple[str, str]]] = {}
        self.away: set[str] = set()
        self.number = 0
        self.writer.start()

    def act(self) -> None:
        actions = [self.open, self.open, *[self.change] * 8, self.end, self.leave, self.come_back, self.end_boot]
        self.random.choice(actions)()

    def write(self, kind: Any, session: str, **fields: Any) -> None:
        self.writer.write(kind(session=session, protocol="objects", **self.sessions[session], **fields))

    def any_session(self) -> str | None:
        return self.random.choice(sorted(self.sessions)) if self.sessions else None

    def open(self) -> None:
        about = self.random.choice(CLIENTS)
        for session, taken in [*self.sessions.items()]:
            if taken["routing_id"] == about:
                self.close(session, "replaced")
        self.number += 1
        session = self.writer.id(self.number)
        self.sessions[session] = {"routing_id": about, "peer": f"192.0.2.{CLIENTS.index(about)}:5"}
        self.held[session] = set()
        self.write(ev.SessionOpened, session, persistent=True, expiry=STEP)

    def change(self) -> None:
        session, service = self.any_session(), self.random.choice(SERVICES)
        if session is None:
            return
        begin, end, kind = self.random.choice(
            (
                (ev.ServiceRegistered, ev.ServiceUnregistered, "service"),
                (ev.SubscriptionAdded, ev.SubscriptionRemoved, "subscription"),
            )
        )
        held = (kind, service)
        self.write(end if held in self.held[session] else begin, session, service=service)
        self.held[session] ^= {held}

    def close(self, session: str, reason: str) -> None:
        for kind, service in sorted(self.held.pop(session)):
            if kind == "service":
                self.write(ev.ServiceUnregistered, session, service=service, reason=reason)
        self.write(ev.SessionClosed, session, duration=5, reason=reason)
        del self.sessions[session]
        self.away.discard(session)

    def end(self) -> None:
        session = self.any_session()
        if session is None:
            return
        reason = self.random.choice(("client-closed", "link-lost"))
        if reason == "link-lost":
            self.writer.write(ev.LinkDown(routing_id="attic", reason="connection-lost"))
        self.close(session, reason)

    def leave(self) -> None:
        session = self.any_session()
        if session is not None and session not in self.away:
            self.away.add(session)
            self.write(ev.SessionLeft, session, until=START, reason="connection-lost")

    def come_back(self) -> None:
        for session in sorted(self.away)[:1]:
            self.away.remove(session)
            self.write(ev.SessionResumed, session, expiry=STEP)

    def end_boot(self) -> None:
        is_crash = self.random.random() < 0.5
        if not is_crash:
            self.close_all("server-stopped")
            self.writer.stop()
        self.writer.start()
        if is_crash:
            self.writer.write(ev.ServerRecovered(sessions_closed=len(self.sessions)))
            self.close_all("server-crashed")

    def close_all(self, reason: str) -> None:
        for session in sorted(self.sessions):
            self.close(session, reason)
