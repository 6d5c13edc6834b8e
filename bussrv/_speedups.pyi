"""The compiled module; see ``_speedups.c``."""

from typing import Protocol

INTERFACE: int
MOST_PLANS: int

class _Connection(Protocol):
    def fileno(self) -> int: ...

def receive(connection: _Connection, /) -> bytes: ...
def send(connection: _Connection, data: bytes, /) -> int: ...

class Seen:
    capacity: int
    @property
    def number(self) -> int: ...
    def __init__(self, secret: bytes, capacity: int, /) -> None: ...
    def add(self, origin: int, text: bytes, /) -> bool: ...

class Plans:
    def __init__(self, is_by_sender: bool, /) -> None: ...
    def splice(
        self,
        data: bytes,
        begin: int,
        max_metadata: int,
        max_payload: int,
        max_nesting: int,
        tails: bytes | tuple[bytes, ...],
        turn: int,
        own_turn: int,
        most: int,
        opening: bytes,
        digits: int,
        made: int,
        way: tuple[Seen, bytes, int, int] | None,
        /,
    ) -> tuple[
        int, int, int, bytes | int | None, list[tuple[int, bytes, int]], int, list[tuple[int, list[bytes]]], int
    ]: ...
    def add(self, key: bytes, outlets: int, is_own: bool, is_pythons: bool, service: int, /) -> int: ...
    def give(self, number: int, outlets: int, /) -> None: ...
    def open(self, number: int, turn: int, own_turn: int, /) -> None: ...
