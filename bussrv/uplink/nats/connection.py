"""The connection to NATS: nats-py's, which gives what comes on subjects of this net away at once, in order.

nats-py has a queue and a task for each subscription. So messages on two subjects may be taken in another order than
they came. What comes on a subject that :meth:`Connection.listen` subscribed to goes to one function instead, in the
order in which the connection has it.

nats-py stops reading for good at a message whose subject or headers it cannot decode, and closes the connection for
good at most errors that the server tells. Here, such a message is dropped, and :attr:`Connection.ended` tells the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.errors import Error

Received = Callable[[str, bytes], None]

MOST_PENDING = 16 << 20
"""The most bytes that wait for the engine. What is sent beyond it is dropped, and counts as lost."""


class Connection(Client):
    """A connection to a NATS server of a cluster, which looks for another one when it is lost.

    :ivar received: is given the subject and the bytes of each message on a subject that is listened to.
    :ivar ended: done when the connection is closed, and does not come back by itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self.received: Received = lambda subject, data: None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listening: dict[str, Subscription] = {}
        self._sids: set[int] = set()

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        if sid in self._sids:
            self.received(subject.decode(errors="replace"), data)
            return
        try:
            await super()._process_msg(sid, subject, reply, data, headers)
        except Exception as error:
            await self._error_cb(error)

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        try:
            await super()._close(status, do_cbs)
        finally:
            if not self.ended.done():
                self.ended.set_result(None)

    async def listen(self, subjects: set[str]) -> None:
        """Subscribe to these subjects, and from now on to no others that were listened to."""
        for subject in sorted(subjects - self._listening.keys()):
            # Its number, before the first message comes.
            self._sids.add(self._sid + 1)
            self._listening[subject] = await self.subscribe(subject)
        for subject in sorted(self._listening.keys() - subjects):
            subscription = self._listening.pop(subject)
            await subscription.unsubscribe()
            self._sids.discard(subscription._id)

    @property
    def listened_to(self) -> set[str]:
        """The subjects that are subscribed to."""
        return set(self._listening)

    async def give(self, subject: str, data: bytes) -> bool:
        """Publish a message. :returns: whether it was handed to the connection."""
        if not self.is_connected or self.pending_data_size > MOST_PENDING:
            return False
        try:
            await self.publish(subject, data)
        except Error:
            return False
        return True
