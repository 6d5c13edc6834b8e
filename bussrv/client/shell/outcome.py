"""Futures that a core can tell of the outcome of a command."""

from __future__ import annotations

import asyncio

from bussrv.client.errors import BusError


class Outcome:
    """Whether a command was carried out; also after nobody waits for it any more."""

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(self, error: BusError | None) -> None:
        """The command was carried out, or not."""
        if self.future.done():
            return
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)
            self.future.exception()  # nobody needs to ask for it

    def ignore(self, _: BusError | None) -> None:
        """It is over, and how does not matter."""
        if not self.future.done():
            self.future.set_result(None)
