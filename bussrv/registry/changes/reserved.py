"""The names of services that only the server itself may provide."""

from __future__ import annotations

from bussrv.values import is_reserved, read_as


class ReservedNames:
    """Names that begin with ``bus/``, and those of the services that this server hosts; in any spelling."""

    def __init__(self) -> None:
        self._hosted: set[str] = set()

    def add(self, name: str) -> None:
        """The server hosts a service of that name."""
        if not is_reserved(name):
            self._hosted.add(read_as(name))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (is_reserved(name) or (bool(self._hosted) and read_as(name) in self._hosted))
