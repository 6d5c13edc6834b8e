"""What the conformance tests share: members that say raw bytes, and metadata compared as text."""

import json
from typing import Any

from tests.formats.network import Connection, Member, Network, drain

VOCABULARIES = ("objects", "business")
JOIN = {"objects": "routing/subscribe", "business": "client/register"}


def unjoined(network: Network, vocabulary: str = "objects") -> Member:
    """Connected, but no member yet."""
    return Member(network.connect(vocabulary))


def join(network: Network, vocabulary: str, **attributes: Any) -> Member:
    """A member of either vocabulary, under the attribute names of the seed of that vocabulary."""
    return network.member(**attributes) if vocabulary == "objects" else network.business(**attributes)


def quiet_pair(network: Network, **interest: Any) -> tuple[Member, Member]:
    """Somebody who sends and does not hear itself, and somebody who receives."""
    sender, receiver = network.member(receive_mode="no_echo"), network.member(**interest)
    drain([sender, receiver])
    return sender, receiver


def provider(network: Network, *names: str, **subscription: Any) -> Member:
    member = network.member(**(subscription or {"receive_mode": "no_echo"}))
    for name in names:
        member.send({"event": "services/register", "name": name})
    member.received()
    return member


def relayed(data: bytes, **interest: Any) -> bytes:
    """What another member gets of the bytes that a member sent."""
    sender, receiver = quiet_pair(Network(), **interest)
    sender.connection.send_bytes(data)
    return receiver.connection.take()


def metadata_of(data: bytes) -> bytes:
    return data.partition(b"\0")[0]


def pairs(metadata: bytes) -> list[tuple[str, Any]]:
    """The attributes of metadata in order, none left out; numbers as they were written."""

    def as_written(digits: str) -> tuple[str, str]:
        return ("number", digits)

    read = json.loads(metadata, object_pairs_hook=list, parse_int=as_written, parse_float=as_written)
    assert isinstance(read, list)
    return read


def keys(metadata: bytes) -> list[str]:
    return [key for key, _ in pairs(metadata)]


def reasons(member: Member) -> list[str]:
    """Why the member was told off since the last time; anything else it was told must not be there."""
    heads = member.heads()
    assert {fields["event"] for fields in heads} <= {"error"}
    return [fields["reason"] for fields in heads]


def in_bytes(connection: Connection, data: bytes) -> None:
    for position in range(len(data)):
        connection.send_bytes(data[position : position + 1])
