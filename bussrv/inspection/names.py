"""The names and addresses of the pseudonyms of a journal, for whoever has the key file."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from bussrv.events import Event
from bussrv.journal.pseudonym_keys import Kind, identities, join, renamed, split
from bussrv.registry.state.session import Session

Named = TypeVar("Named", Event, Session)


class Names:
    """The names in a key file, also while a server uses it. A person who is forgotten keeps the pseudonym.

    :raises JournalError: if it cannot be read or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._identities = {(each.kind, each.pseudonym): each.identity for each in identities(path)}

    def reveal(self, shown: Named) -> Named:
        """An event or a session, with its actor, the name it claims and its peer as they are."""
        return renamed(shown, self._name)

    def _name(self, kind: Kind, text: str) -> str:
        pseudonym, port = split(kind, text)
        identity = self._identities.get((kind, pseudonym))
        return text if identity is None else join(identity, port)
