"""The names and addresses that stand behind the pseudonyms of a journal, for who has the key file."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from bussrv.events import Event
from bussrv.journal.pseudonym_keys import Kind, identities, join, split
from bussrv.registry.state import Session

Named = TypeVar("Named", Event, Session)


class Names:
    """What a key file says, also while a server uses it. Who is forgotten keeps the pseudonym.

    :raises JournalError: if it cannot be read or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._identities = {(each.kind, each.pseudonym): each.identity for each in identities(path)}

    def reveal(self, shown: Named) -> Named:
        """An event or a session, with its actor and its peer as they are."""
        actor, peer = shown.actor, shown.peer
        return replace(shown, actor=actor and self._name("actor", actor), peer=peer and self._name("peer", peer))

    def _name(self, kind: Kind, text: str) -> str:
        pseudonym, port = split(kind, text)
        identity = self._identities.get((kind, pseudonym))
        return text if identity is None else join(identity, port)
