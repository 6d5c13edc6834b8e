"""A hosted service that remembers what it was told."""

from zope.interface import implementer

from bussrv.interfaces import IServiceHost, IServiceObject


@implementer(IServiceObject)
class Door:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def snapshot(self) -> bytes:
        return b"closed"

    def watched(self) -> None:
        self.calls.append("watched")

    def unwatched(self) -> None:
        self.calls.append("unwatched")


def make(host: IServiceHost) -> Door:
    return Door()
