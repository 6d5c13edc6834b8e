"""A hosted service that remembers what it was told."""

from zope.interface import implementer

from bussrv.interfaces import IServiceHost, IServiceObject


@implementer(IServiceObject)
class Door:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def snapshot(self) -> bytes:
        return b"closed"

    def first_subscriber_came(self) -> None:
        self.calls.append("first_subscriber_came")

    def last_subscriber_left(self) -> None:
        self.calls.append("last_subscriber_left")


def make(host: IServiceHost) -> Door:
    return Door()
