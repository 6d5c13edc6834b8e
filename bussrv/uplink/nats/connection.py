"""The connection to NATS: nats-py's, which gives what comes on subjects of this net away at once, in order.

nats-py has a queue and a task for each subscription. So messages on two subjects may be taken in another order than
they came. What comes on a subject that :meth:`Connection.listen` subscribed to goes to one function instead, in the
order in which the connection has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.errors import Error

Received = Callable[[str, bytes], None]

MOST_PENDING = 16 << 20
"""The most bytes that wait for the engine. What is sent beyond it is dropped, and counts as lost."""


class Connection(Client):
    """A connection to a NATS server of a cluster, which looks for another one when it is lost.

    :ivar received: is given the subject and the bytes of each message on a subject that is listened to.
    """

    def __init__(self) -> None:
        super().__init__()
        self.received: Received = lambda subject, data: None
        self._listening: dict[str, Subscription] = {}
        self._sids: set[int] = set()

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Any:
        if sid in self._sids:
            self.received(subject.decode(), bytes(data))
            return None
        return super()._build_message(sid, subject, reply, data, headers)

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
