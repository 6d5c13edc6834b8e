"""The names that an engine has for where things go. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol


class ISubjects(Protocol):
    """The names that an engine has for where things go."""

    def publication(self, service: str) -> str:
        """The subject of the publications on a service."""

    def service(self, subject: str) -> str | None:
        """The service of such a subject; ``None``: it is none.

        :raises RemoteProtocolError: ``bad-frame``: no service has this subject.
        """

    def of(self, kind: str, server: str = "*") -> str:
        """A subject of a server, or of all: ``obj``, ``to``, ``reg``, ``beat`` or ``ask``."""

    def parts(self, subject: str) -> tuple[str, str]:
        """The kind of a subject, and its server.

        :raises RemoteProtocolError: ``bad-frame``: no server has this subject.
        """

    def all_publications(self) -> str:
        """The subjects of the publications on all services."""

    def wanted(self, names: Iterable[str]) -> Iterator[str]:
        """The subjects of the publications on the services that match names and patterns."""
