"""A hosted service whose state cannot be said."""

from typing import Any

from zope.interface import implementer

from bussrv.interfaces import IServiceHost, IServiceObject


@implementer(IServiceObject)
class Broken:
    """:ivar state: what it says of itself; an exception is raised."""

    def __init__(self, host: IServiceHost) -> None:
        self.host = host
        self.state: Any = RuntimeError("no sensor")

    def snapshot(self) -> bytes:
        if isinstance(self.state, Exception):
            raise self.state
        return self.state  # type: ignore[no-any-return]

    def first_subscriber_came(self) -> None:
        """Nothing is to be done."""

    def last_subscriber_left(self) -> None:
        """Nothing is to be done."""


def make(host: IServiceHost) -> Broken:
    return Broken(host)
