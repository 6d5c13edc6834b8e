"""What a row of the tables of hostile inputs is, and the few words in which the two vocabularies differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ID = "h"
"""The id of whatever is to be answered, unless a row says otherwise."""

MAX_METADATA = 64 << 10
MAX_NESTING = 64

# The bystanders: they have short addresses, so that many fit into one object.
OBJECTS_BYSTANDER = "o"
RULES_BYSTANDER = "r"
BUSINESS_BYSTANDER = "b"
SERVICE = "kitchen"
"""What the first bystander provides."""


@dataclass(frozen=True)
class Vocabulary:
    """The words of a vocabulary.

    :ivar joining: the event that makes a connection a member.
    :ivar probe: an event that the server answers, with ``probe_answer``.
    """

    name: str
    joining: str
    receive: str
    types: str
    own_id: str
    probe: str
    probe_answer: str

    def join(self, **attributes: Any) -> dict[str, Any]:
        """The metadata of a subscription to everything but one's own."""
        return {"event": self.joining, "id": ID, self.receive: "no_echo", **attributes}

    @property
    def joined(self) -> str:
        return f"{self.joining}/reply"


OBJECTS = Vocabulary("objects", "routing/subscribe", "receive_mode", "types", "routing-id", "ping", "pong")
BUSINESS = Vocabulary(
    "business",
    "client/register",
    "receive",
    "subscribe",
    "unique-routing-id",
    "services/list",
    "services/list/reply",
)
VOCABULARIES = (OBJECTS, BUSINESS)


# What is to come of an input.


@dataclass(frozen=True)
class Closed:
    """One ``error`` object with that reason, then the connection is closed."""

    reason: str


@dataclass(frozen=True)
class Refused:
    """``error`` objects with that reason; the connection lives on.

    :ivar in_reply_to: ``None`` when what was sent has no id that can be quoted.
    """

    reason: str
    times: int = 1
    in_reply_to: Any = ID


@dataclass(frozen=True)
class Answered:
    """It is unusual, yet nothing is wrong with it: the server answers with that event.

    :ivar event: ``joined`` stands for the reply to a subscription, in the words of the vocabulary.
    :ivar announced: whether the others are told of a member.
    """

    event: str
    times: int = 1
    announced: bool = False
    in_reply_to: Any = ID


JOINED = Answered("joined", announced=True)


@dataclass(frozen=True)
class Routed:
    """It is a legal oddity: others are given it exactly as it is, but for ``id`` and ``route``.

    :ivar to: the routing ids of those who are given it.
    """

    to: tuple[str, ...] = (OBJECTS_BYSTANDER, RULES_BYSTANDER, BUSINESS_BYSTANDER)


@dataclass(frozen=True)
class Dropped:
    """Nothing comes of it, and nothing is answered."""


Outcome = Closed | Refused | Answered | Routed | Dropped
Build = Callable[[Vocabulary], bytes]


@dataclass(frozen=True)
class Row:
    """One hostile input.

    :ivar data: the bytes; large ones, and those in words of the vocabulary, are built when they are needed.
    :ivar member: whether it is sent as a member; otherwise before joining.
    :ivar only: the vocabulary that it is for, when it is not for both.
    :ivar holds: bytes of memory that the server rightly holds for it, and may keep for a while.
    """

    name: str
    data: bytes | Build
    outcome: Outcome
    member: bool = True
    only: Vocabulary | None = None
    holds: int = 0

    def is_for(self, vocabulary: Vocabulary) -> bool:
        return self.only in (None, vocabulary)

    def build(self, vocabulary: Vocabulary) -> bytes:
        return self.data if isinstance(self.data, bytes) else self.data(vocabulary)


def text(fields: Any) -> bytes:
    """Compact JSON."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def obj(payload: bytes = b"", /, **fields: Any) -> bytes:
    """An object; ``_`` in the names of attributes stands for ``-``. With a payload it gets the right size."""
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    sized = {**named, "size": len(payload)} if payload else named
    return text(sized) + b"\0" + payload


def subscription(**attributes: Any) -> Build:
    """A subscription with these attributes; in their names ``types`` and ``own_id`` are those of the vocabulary."""

    def build(vocabulary: Vocabulary) -> bytes:
        words = {"types": vocabulary.types, "own_id": vocabulary.own_id, "receive": vocabulary.receive}
        named = {words.get(name, name.replace("_", "-")): value for name, value in attributes.items()}
        return text(vocabulary.join(**named)) + b"\0"

    return build


def with_value(key: str, value: str, **fields: Any) -> bytes:
    """An object with an attribute whose value is written just so."""
    return text(fields)[:-1] + b',"%b":%b}\0' % (key.encode(), value.encode())


def short_names(count: int) -> list[str]:
    """Different names of three letters."""
    letters = "cdefghijklmnpqstuvwxyz0123456789"
    size = len(letters)
    return [letters[n // size**2 % size] + letters[n // size % size] + letters[n % size] for n in range(count)]
