"""Tells others of incidents: one message after the other, with retries, not too often, and never more than wait.

Messages never delay the server: a queue that is full drops the oldest one of the least weight, and counts it.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from bussrv.admin.incidents.known import Known, KnownIncidents
from bussrv.admin.incidents.view import item
from bussrv.incidents.judging import GRAVE, weight_of

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
    """The messages to one receiver. Until it is told how to send, it takes none.

    :param counters: those of the server.
    """

    def __init__(self, receiver: Receiver, reactor: Any, counters: Counter[str]) -> None:
        self._receiver = receiver
        self._send: Send | None = None
        self._reactor = reactor
        self._counters = counters
        self._waiting: list[tuple[int, bytes, str]] = []
        self._attempts: deque[float] = deque(maxlen=A_MINUTE)
        self._working: Deferred[None] | None = None

    def follow(self, known: KnownIncidents) -> None:
        """Tell of each incident that begins, and of each that is over."""
        known.listen(self._tell)

    def _tell(self, known: Known, is_over: bool) -> None:
        event = "over" if is_over else "began"
        self.put(message(known, event), event, weight_of(known.row))

    def use(self, send: Send | None) -> None:
        """Send in another way from now on. What waits is sent so, too, and at once; an attempt that goes on is ended.

        :param send: ``None``: messages are not sent. What waits is dropped, and counted.
        """
        self._send = send
        self._pause()
        if send is None:
            self._counters[self._receiver.dropped] += len(self._waiting)
            self._waiting.clear()
        self._go_on()

    def put(self, text: bytes, event: str, weight: int = GRAVE) -> None:
        """Send a message in its turn.

        :param weight: of the incident. If too many wait, the oldest one of the least weight is dropped.
        """
        if self._send is None:
            return
        self._waiting.append((weight, text, event))
        if len(self._waiting) > MOST_WAITING + 1:
            # The first one is on its way.
            del self._waiting[min(range(1, len(self._waiting)), key=lambda at: self._waiting[at][0])]
            self._counters[self._receiver.dropped] += 1
        self._go_on()

    def stop(self) -> None:
        """Send nothing more."""
        self._send = None
        self._pause()
        self._waiting.clear()

    def _go_on(self) -> None:
        if self._working is None and self._waiting and self._send is not None:
            working = self._working = Deferred.fromCoroutine(self._work(self._send))
            working.addErrback(lambda failure: failure.trap(CancelledError))
            if working.called:
                self._working = None

    def _pause(self) -> None:
        working, self._working = self._working, None
        if working is not None:
            working.cancel()

    async def _work(self, send: Send) -> None:
        while self._waiting:
            _, text, event = self._waiting[0]
            await self._deliver(send, text, event)
            del self._waiting[0]
        self._working = None

    async def _deliver(self, send: Send, text: bytes, event: str) -> None:
        for pause in (*PAUSES, None):
            await self._pace()
            try:
                await send(text, event)
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
