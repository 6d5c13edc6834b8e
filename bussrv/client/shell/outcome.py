"""Futures that a core can tell of the outcome of a command."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from bussrv.client.errors import BusError

Answer = TypeVar("Answer")


class Outcome(Generic[Answer]):
    """The answer to a command, such as ``None``: it was carried out; also after nobody waits for it any more."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def done(self, answer: Answer | BusError) -> None:
        """The command was carried out, or not."""
        if self.future.done():
            return
        if isinstance(answer, BusError):
            self.future.set_exception(answer)
            self.future.exception()  # nobody needs to ask for it
        else:
            self.future.set_result(answer)
