"""Input of members that ask for changes of the registry, one after the other, and wait for each answer.

Such a client sends one small object in each chunk. It is served without what other input needs: a reader that keeps
the rest, batches, a slice of its own, and a flush. That is the *short way*. It is taken only if the chunk holds one
object, and nothing about that is unusual. Otherwise the chunk is read as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import msgspec
from twisted.python.failure import Failure

from bussrv.bus.flush_schedule import NEVER
from bussrv.errors import Refused
from bussrv.formats.objects.object_input import ObjectInput
from bussrv.wire.head import decode_command
from bussrv.wire.objects import NUL, BusObject

SHORT = frozenset({"services/register", "services/unregister"})
"""The events that are served in the short way: they collect no frames for others."""

MOST_SHORT = 1024
"""The most bytes of a chunk that is read in the short way."""


class CommandInput(ObjectInput):
    """One connection whose client may ask for changes of the registry.

    :cvar EVENTS: the methods that serve the events of the vocabulary; every other object is routed.
    :cvar COMMANDS: those of them that members send: only objects by which a client joins may come with credentials.
    """

    EVENTS: ClassVar[dict[str, Callable[[Any, BusObject], None]]]
    COMMANDS: ClassVar[frozenset[str | None]] = frozenset()
    _is_idle = False  # a change was answered since the last chunk, and nothing of the client waits
    _is_short = False  # the last chunk was served in the short way
    _is_asking = False  # a change is being asked for: it may be answered before that returns
    _most_short = 0

    def refuse(self, object_id: Any, reason: str, message: str) -> None:
        """Answer with an ``error``."""
        raise NotImplementedError

    def answer(self, obj: BusObject, fields: dict[str, Any], payload: bytes = b"") -> None:
        """Answer an object, with ``in-reply-to`` when it had an id."""
        raise NotImplementedError

    def joined(self) -> None:
        """The session is a member of the network from now on."""
        self._member = True
        settings = self._bus.settings
        self._objects.limit(settings.max_metadata, settings.max_payload)
        self._most_short = min(MOST_SHORT, settings.max_metadata)

    def dataReceived(self, data: bytes) -> None:
        """Read a chunk, in the short way if the client is one that waits for each answer."""
        obj = self._alone(data) if self._is_idle else None
        self._is_idle = self._is_short = False
        if obj is None:
            super().dataReceived(data)
        else:
            self._serve_alone(obj, len(data))

    def _alone(self, data: bytes) -> BusObject | None:
        """The object that a chunk holds, if it is to be served in the short way."""
        is_small = len(data) <= self._most_short and data.isascii()
        # One object that nests in nothing, and has no payload.
        if not is_small or data.find(NUL) != len(data) - 1 or data.count(b"{") != 1 or b"[" in data:
            return None
        if self.has_ended or self.link.is_closing or not self._bus.slices.is_free:
            return None
        metadata = data[:-1]
        try:
            head = decode_command(metadata)
        except msgspec.DecodeError:
            return None
        is_short = head.event in SHORT and head.event in self.COMMANDS and not head.size
        return BusObject(metadata, head) if is_short else None

    def _serve_alone(self, obj: BusObject, size: int) -> None:
        begin = self.reactor.seconds()
        self.traffic.bytes_in += size
        self.traffic.objects_in += 1
        self._is_short = True
        try:
            self.EVENTS[obj.head.event or ""](self, obj)
        except Exception:
            self.serving_failed(Failure())
        self._is_idle = not self.is_busy
        self._bus.slices.spend(self.reactor.seconds() - begin)

    def ask_for_change(self, ask: Callable[..., object], obj: BusObject, about: dict[str, Any], *details: Any) -> None:
        """Ask for a change that a member wants. Its later input waits until that is answered.

        :param ask: a method of the registry, which is given the session, the details, and how to tell the outcome.
        :param about: the attributes of the answer.
        """
        self.is_busy = self._is_asking = True
        try:
            ask(self.session_id, *details, partial(self.answer_change, obj, about))
        except BaseException:
            self.is_busy = False
            raise
        finally:
            self._is_asking = False

    def answer_change(self, obj: BusObject, about: dict[str, Any], error: BaseException | None) -> None:
        """Answer a command of a member: its change of the registry was made (``None``), or why it was not."""
        try:
            if error is None:
                self.answer(obj, {"event": f"{obj.head.event}/reply", **about})
            elif isinstance(error, Refused):
                self.refuse(obj.head.id, error.reason, error.message)
            else:
                raise error
        except Exception:
            self.serving_failed(Failure())
        was_busy, self.is_busy = self.is_busy, False
        if self._is_asking or not was_busy:
            return
        if self._is_paused or self._input_ended or (not self._is_short and self.has_input()):
            self.work_is_done()
        else:
            # The answer is sent, and no frames were collected.
            self._read_at = NEVER
            self._is_idle = not self.is_link
