"""Owners and entries, the changes of them, and the outcomes. Pure."""

from __future__ import annotations

from msgspec import Struct


class Claim(Struct, frozen=True, kw_only=True):
    """Keep entries for an owner from now on. If it is there, these fields are replaced and its entries stay.

    :ivar owner: the key of a durable session, or another key that a wire format chose.
    :ivar address: of its client, as sessions have it; its port is left out.
    :ivar actor: the user that the session proved to be.
    :ivar drops_oldest: whether :class:`Append` drops the oldest entries of the same kind when there is no room, in
        place of being refused.
    """

    owner: str
    address: str
    actor: str | None = None
    drops_oldest: bool = False


class Append(Struct, frozen=True, kw_only=True):
    """Add an entry after all others.

    :ivar kind: a short word of the wire format, such as ``queue``.
    :ivar expires: when the entry ends, in UTC microseconds; ``None``: never.
    :ivar or_drop: whether the entry itself is dropped, instead of refused, when there is no room for it or its owner is
        gone. Its number is 0 then.
    """

    owner: str
    kind: str
    payload: bytes
    expires: int | None = None
    or_drop: bool = False


class AppendToAll(Struct, frozen=True, kw_only=True):
    """Add an entry for each of many owners, after all others. They have one payload, which is kept once.

    The entries have numbers one after the other, in the order of the owners. One that has no room, or no owner, is
    dropped; so are the oldest entries of its owner before, as with :class:`Append`. Each counts like an entry alone.

    :ivar owners: at most 1,024, each once.
    :ivar heads: what precedes the payload, for each owner.
    """

    owners: tuple[str, ...]
    kind: str
    heads: tuple[bytes, ...]
    payload: bytes
    expires: int | None = None


class Replace(Struct, frozen=True, kw_only=True):
    """Give the entry with a number another payload, if it is there. It is not refused if that is not longer."""

    owner: str
    kind: str
    number: int
    payload: bytes


class Put(Struct, frozen=True, kw_only=True):
    """Add an entry with a key, or replace the one of the same owner and kind that has it. That one keeps its number.

    It is refused when there is no room.

    :ivar or_drop: whether nothing is kept, instead of refused, when its owner is gone. Its number is 0 then.
    """

    owner: str
    kind: str
    key: str
    payload: bytes
    expires: int | None = None
    or_drop: bool = False


class Remove(Struct, frozen=True, kw_only=True):
    """Remove the entry with a number, if it and its owner are there."""

    owner: str
    kind: str
    number: int


class RemoveKey(Struct, frozen=True, kw_only=True):
    """Remove the entry with a key, if it and its owner are there."""

    owner: str
    kind: str
    key: str


class RemoveUpTo(Struct, frozen=True, kw_only=True):
    """Remove the entries up to a number, that one included."""

    owner: str
    kind: str
    number: int


class DropsTold(Struct, frozen=True, kw_only=True):
    """The client was told that so many entries were dropped: :attr:`Owner.dropped` is less by them."""

    owner: str
    count: int


class Drop(Struct, frozen=True, kw_only=True):
    """Remove an owner and all its entries, if it is there."""

    owner: str


Change = Claim | Append | AppendToAll | Replace | Put | Remove | RemoveKey | RemoveUpTo | DropsTold | Drop
"""A change of the spool."""


def entries_in(change: Change) -> int:
    """How many entries a change adds."""
    return len(change.owners) if isinstance(change, AppendToAll) else isinstance(change, (Append, Put))


class Written(Struct, frozen=True):
    """Changes are durable.

    :ivar numbers: those of the entries that were appended or put, in the order of the changes; of :class:`AppendToAll`
        the first one. No number is used again.
    :ivar dropped: how many entries were dropped to make room.
    """

    numbers: tuple[int, ...] = ()
    dropped: int = 0


class Entry(Struct, frozen=True):
    """An entry.

    :ivar number: later entries have greater ones, over all owners.
    :ivar key: ``None``: it was appended.
    :ivar expires: UTC microseconds; ``None``: never.
    """

    number: int
    key: str | None
    payload: bytes
    expires: int | None


class Page(Struct, frozen=True):
    """Entries in their order. ``is_last``: there are none after them."""

    entries: tuple[Entry, ...]
    is_last: bool


class Owner(Struct, frozen=True, kw_only=True):
    """An owner.

    :ivar address: a host, or what else an address is without its port.
    :ivar bytes: as they count against the limits: more than those of the payloads.
    :ivar kinds: how many entries there are of each kind.
    :ivar dropped: how many entries were dropped to make room, since :class:`DropsTold`.
    """

    owner: str
    address: str
    actor: str | None
    drops_oldest: bool
    bytes: int
    kinds: dict[str, int]
    dropped: int
