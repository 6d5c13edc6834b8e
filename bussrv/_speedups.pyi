"""The compiled module; see ``_speedups.c``."""

from typing import NamedTuple, Protocol

INTERFACE: int
MOST_PLANS: int

class _Connection(Protocol):
    def fileno(self) -> int: ...

def receive(connection: _Connection, /) -> bytes: ...
def send(connection: _Connection, data: bytes, /) -> int: ...
def exchanges(
    sender: Sender, data: bytes, made: int, /
) -> list[tuple[bool, str, bytes, bytes, str | None, bool, int]]: ...

class Seen:
    capacity: int
    @property
    def number(self) -> int: ...
    def __init__(self, secret: bytes, capacity: int, /) -> None: ...
    def add(self, origin: int, text: bytes, /) -> bool: ...

class Sender:
    def __init__(
        self,
        limits: tuple[int, int, int],
        tails: bytes | tuple[bytes, ...],
        opening: bytes,
        digits: int,
        way: tuple[Seen, bytes, int, int] | None,
        /,
    ) -> None: ...

class Taken(NamedTuple):
    end: int
    objects: int
    verdict: int
    what: bytes | int | None
    pieces: list[tuple[int, bytes, int]]
    ids: int
    published: list[tuple[int, list[bytes]]]
    duplicates: int

class Plans:
    def __init__(self, is_by_sender: bool, /) -> None: ...
    def splice(
        self, sender: Sender, data: bytes, begin: int, turn: int, own_turn: int, most: int, made: int, /
    ) -> Taken: ...
    def add(self, key: bytes, outlets: int, is_own: bool, is_pythons: bool, service: int, /) -> int: ...
    def give(self, number: int, outlets: int, /) -> None: ...
    def open(self, number: int, turn: int, own_turn: int, /) -> None: ...
