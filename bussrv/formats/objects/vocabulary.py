"""A vocabulary of the object network: the events that it serves, and the attributes by which clients join."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bussrv.bus.interest.vocabulary import EXCHANGED
from bussrv.formats.objects.command_input import Serve
from bussrv.plugin import OverLimit, Refused, check_routing_id
from bussrv.values import MAX_ROUTING_ID


class Vocabulary:
    """The events that are served for the clients of one format. Every other object is routed.

    :ivar events: the method that serves each of them.
    :ivar joining: those that make the session a member. Until then everything else is dropped.
    :ivar commands: the others: only objects by which a client joins may come with credentials.
    :ivar served: those that are never routed in a batch: all, save requests and replies, which are exchanged.
    """

    def __init__(self, joining: tuple[str, ...], events: Mapping[str, Serve]) -> None:
        self.events = events
        self.joining = joining
        self.commands = frozenset(events) - frozenset(joining)
        self.served = frozenset(events) - EXCHANGED


def routing_id(value: Any, name: str) -> str | None:
    """A routing id that a client asks for.

    :raises Refused: ``bad-subscription``: it cannot be a routing id.
    """
    return None if value is None else check_routing_id(value, name)


def routing_ids(value: Any, most: int) -> tuple[str, ...]:
    """The further routing ids that a client asks for, a string or an array.

    :param most: how many it may ask for.
    :raises Refused: ``bad-subscription``: one of them cannot be a routing id.
    """
    values = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(values, list):
        raise Refused("bad-subscription", "routing-ids is an array of strings")
    if len(values) > most:
        message = f"routing-ids has at most {most} routing ids, not {len(values)}"
        raise OverLimit("bad-subscription", message, "max-routing-ids", most)
    return tuple(check_routing_id(each, "each of routing-ids") for each in values if each is not None)


def services(value: Any, most: int) -> list[str] | None:
    """The services that a client subscribes to by name; ``None``: it does not say so.

    :param most: how many it may name.
    :raises Refused: ``bad-subscription``: it is no array of strings, or there are too many.
    """
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Refused("bad-subscription", "services is an array of names")
    if len(value) > most:
        message = f"services has at most {most} names, not {len(value)}"
        raise OverLimit("bad-subscription", message, "max-patterns", most)
    return value


def echoed(fields: dict[str, Any]) -> dict[str, Any]:
    """Deployed subscribers of Object System expect their rules in the reply, as they sent them."""
    return {"subscriptions": fields["subscriptions"]} if "subscriptions" in fields else {}


def text(value: Any) -> str | None:
    """An informative attribute, if it is text."""
    return value[:MAX_ROUTING_ID] if isinstance(value, str) else None
