"""Tells others of incidents: one message after the other, with retries, not too often, and never more than wait.

Messages never delay the server: a queue that is full drops the oldest one, and counts it.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import deferLater
from twisted.logger import Logger

from bussrv.admin.incidents.known import Known, KnownIncidents
from bussrv.admin.incidents.view import item

MOST_WAITING = 100
"""The most messages that wait."""

A_MINUTE = 20
"""The most attempts in a minute."""

PAUSES = (1.0, 5.0, 30.0, 120.0)
"""Seconds before the second attempt, the third one, and so on. After the last one the message is dropped."""

_MINUTE = 60.0

log = Logger()

Send = Callable[[bytes, str], "Deferred[None]"]
"""Sends a message, JSON and its event. The Deferred fails with the reason why it was not sent."""


class NotSent(Exception):
    """A message was not taken. The text says why, without names of strangers and without secrets."""


class Receiver(Struct, frozen=True):
    """The names that the log and the counters have for a receiver: of messages that it took, and that it did not."""

    name: str
    sent: str
    failed: str
    dropped: str


WEBHOOK = Receiver("webhook", "incident-webhook-sent", "incident-webhook-failed", "incident-webhook-dropped")
COMMAND = Receiver("command", "incident-command-sent", "incident-command-failed", "incident-command-dropped")


class Outbox:
    """The messages to one receiver.

    :param counters: those of the server.
    """

    def __init__(self, receiver: Receiver, send: Send, reactor: Any, counters: Counter[str]) -> None:
        self._receiver = receiver
        self._send = send
        self._reactor = reactor
        self._counters = counters
        self._waiting: deque[tuple[bytes, str]] = deque()
        self._attempts: deque[float] = deque(maxlen=A_MINUTE)
        self._working: Deferred[None] = succeed(None)
        self._is_working = False
        self._is_stopped = False

    def follow(self, known: KnownIncidents) -> None:
        """Tell of each incident that begins, and of each that is over."""
        known.listen(self._tell)

    def _tell(self, known: Known, is_over: bool) -> None:
        event = "over" if is_over else "began"
        self.put(message(known, event), event)

    def put(self, text: bytes, event: str) -> None:
        """Send a message in its turn."""
        if self._is_stopped:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            self._counters[self._receiver.dropped] += 1
        self._waiting.append((text, event))
        if not self._is_working:
            self._is_working = True
            self._working = Deferred.fromCoroutine(self._work())
            self._working.addErrback(lambda failure: failure.trap(CancelledError))

    def stop(self) -> None:
        """Send nothing more."""
        self._is_stopped = True
        self._waiting.clear()
        self._working.cancel()

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._deliver(*self._waiting.popleft())
        finally:
            self._is_working = False

    async def _deliver(self, text: bytes, event: str) -> None:
        for pause in (*PAUSES, None):
            await self._pace()
            try:
                await self._send(text, event)
            except CancelledError:
                raise
            except Exception as error:
                self._failed(error, pause)
                if pause is not None:
                    await deferLater(self._reactor, pause)
            else:
                self._counters[self._receiver.sent] += 1
                return

    async def _pace(self) -> None:
        """Wait until another attempt may be made."""
        now = self._reactor.seconds()
        if len(self._attempts) == A_MINUTE and now - self._attempts[0] < _MINUTE:
            await deferLater(self._reactor, self._attempts[0] + _MINUTE - now)
        self._attempts.append(self._reactor.seconds())

    def _failed(self, error: Exception, pause: float | None) -> None:
        self._counters[self._receiver.failed] += 1
        why = str(error) if isinstance(error, NotSent) else type(error).__name__
        further = "it is dropped" if pause is None else f"it is tried again after {pause:g} s"
        log.warn(
            "an incident was not told by the {name}: {why}; {further}",
            event="incidents.not-told",
            name=self._receiver.name,
            why=why,
            further=further,
        )


def message(known: Known, event: str) -> bytes:
    """An incident as JSON of ASCII characters: neither a terminal nor a shell obeys what strangers wrote in it.

    :param event: ``began`` or ``over``.
    """
    fields = {"event": event, **msgspec.to_builtins(item(known))}
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode("ascii")
