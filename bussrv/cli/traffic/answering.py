"""A service that runs a command for each request, several at a time, and sends its output as the reply."""

from __future__ import annotations

import queue
import select
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from bussrv.cli.traffic.running import Limits, Outcome, Runner

if TYPE_CHECKING:
    from bussrv.cli.traffic.members import Member
    from bussrv.client.objects import Object


@dataclass(frozen=True)
class Answered:
    """A request that was answered.

    :ivar sender: the routing id of the client that asked.
    :ivar request: the size of the request's payload in bytes.
    """

    sender: str
    request: int
    outcome: Outcome

    def as_json(self) -> dict[str, Any]:
        """The object of JSON for programs."""
        shown = {"from": self.sender, "bytes": self.request, "reply_bytes": len(self.outcome.output)}
        return {**shown, "seconds": round(self.outcome.seconds, 6), "reason": self.outcome.reason}

    def __str__(self) -> str:
        end = f"{len(self.outcome.output)} bytes" if self.outcome.reason is None else self.outcome.reason
        return f"{self.sender}  {self.request} bytes -> {end}  {self.outcome.seconds:.3f} s"


class Service:
    """Answers requests. Leaving its context ends the commands.

    :param member: the member that has registered the service. Only the thread of the caller uses it.
    :param content_type: the content type of replies; ``None``: text if a reply is UTF-8, else bytes.
    :param report: is called for each request that was answered.
    """

    def __init__(
        self,
        member: Member,
        name: str,
        limits: Limits,
        content_type: str | None,
        report: Callable[[Answered], None],
    ) -> None:
        self._member, self._name, self._limits = member, name, limits
        self._content_type, self._report = content_type, report
        self._runner = Runner(limits)
        self._pool = ThreadPoolExecutor(limits.concurrency, "command")
        self._done: queue.SimpleQueue[tuple[Object, Outcome]] = queue.SimpleQueue()
        self._wake, self._woken = socket.socketpair()
        self._open = 0
        self._answered = 0

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.close()
        self._pool.shutdown(cancel_futures=True)
        self._wake.close()
        self._woken.close()

    def serve(self, count: int | None = None) -> None:
        """Answer requests.

        :param count: return after so many answers; ``None``: never.
        :raises ConnectionError: the connection was lost.
        """
        while count is None or self._answered < count:
            self._take_requests(count)
            select.select([self._member.client, self._woken], [], [])
            self._send_replies()

    def _take_requests(self, count: int | None) -> None:
        while (asked := self._member.asked()) is not None:
            if self._open >= self._limits.concurrency + self._limits.waiting:
                self._answer(asked, Outcome(b"", "too-busy", "too many requests wait for this service", 0.0))
            elif count is None or self._answered + self._open < count:
                self._open += 1
                self._pool.submit(self._run, asked)

    def _run(self, asked: Object) -> None:
        """Run the command of a request, in a thread of the pool."""
        fields = asked.metadata
        about = {"SERVICE": self._name, "FROM": _sender(asked), "TYPE": fields.get("type"), "ID": fields.get("id")}
        variables = {f"REQUEST_{name}": value for name, value in about.items() if isinstance(value, str)}
        self._done.put((asked, self._runner.run(asked.payload, variables)))
        self._wake.send(b"x")

    def _send_replies(self) -> None:
        self._woken.setblocking(False)
        try:
            self._woken.recv(4096)
        except BlockingIOError:
            return
        while not self._done.empty():
            self._open -= 1
            self._answer(*self._done.get())

    def _answer(self, asked: Object, outcome: Outcome) -> None:
        if outcome.reason is not None:
            self._member.refuse(asked, outcome.reason, outcome.message)
        else:
            from bussrv.cli.traffic.payloads import type_of

            self._member.client.reply(asked, outcome.output, self._content_type or type_of(outcome.output))
        self._answered += 1
        self._report(Answered(_sender(asked), len(asked.payload), outcome))


def _sender(asked: Object) -> str:
    route = asked.metadata.get("route")
    return str(route[0]) if isinstance(route, list) and route else ""
