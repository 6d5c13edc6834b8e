"""What the reference knows of a client."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from tests.bus.reference import Session
from tests.equality.words import Stream, first_object, from_client


@dataclass
class Published:
    """What a device published on Inbus."""

    app_key: str
    payload: bytes
    app_type: int


class Client:
    """A connection, or an address that Inbus datagrams come from.

    :ivar stream: what it said that was not looked at yet.
    :ivar planned: the services it provides, once everything that is on its way is done.
    :ivar wanted: those it is subscribed to, likewise.
    :ivar deaf: it subscribed to nothing, not even to answers.
    """

    def __init__(self, kind: str, session: Session) -> None:
        self.kind = kind
        self.session = session
        self.stream = Stream(from_client if kind == "spp" else first_object)
        self.waiting: deque[Any] = deque()
        self.planned: set[str] = set()
        self.wanted: set[str] = set()
        self.busy = self.deaf = self.ended = self.input_ended = False

    @property
    def id(self) -> str:
        return self.session.id
