"""Interests: what members want, as their subscriptions say it, and what interests look at in an object. Pure.

Two kinds of interest exist. A *mode interest* (seeds 000 and 002) is a receive mode and content types; types filter
content only, an event passes. A *rule interest* (the deployed dialect) is an ordered list of rules in which the last
match decides::

    rule   = ["!"] test          "!": an object that matches does not pass
    test   = "#" pattern         one of the object's natures
           / "@" pattern         its event
           / pattern             its content type, before any ";"; a lone "*" matches every object
    pattern: a trailing "*" stands for any characters; letter case does not matter
    a nested array of rules: a match inside it decides at once
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from msgspec import Struct

from bussrv.bus.interest.vocabulary import REQUEST
from bussrv.errors import OverLimit, Refused
from bussrv.patterns import is_inner
from bussrv.settings import Settings
from bussrv.values import ModeInterest, RuleInterest, quoted
from bussrv.wire.objects import BusObject

RECEIVE_MODES = ("none", "all", "no_echo", "events_only")

MAX_TYPE = 255
"""How many characters of a content type count; RFC 6838 allows no more."""


class Kind(Struct, frozen=True):
    """The attributes of an object that decide who may receive it. They are in lower case; the type has no parameters.

    :ivar type: the content type; empty if the object has none.
    :ivar natures: the natures, sorted.
    :ivar has_payload: whether there is a payload. One without a type counts as ``application/octet-stream`` for mode
        interests.
    :ivar service: the service of a publication; ``None`` if it is not a publication, or its service does not matter:
        there is no policy, no member is subscribed to it, and no linked server wants it in particular.
    """

    event: str | None = None
    type: str = ""
    natures: tuple[str, ...] = ()
    has_payload: bool = False
    service: str | None = None

    def length(self) -> int:
        """The number of its characters."""
        own = len(self.event or "") + len(self.type) + len(self.service or "")
        return own + sum(map(len, self.natures)) + len(self.natures)


def kind_of(obj: BusObject, service: str | None = None) -> Kind:
    """The kind of ``obj``; see :class:`Kind` for ``service``."""
    head = obj.head
    natures = tuple(sorted({nature.lower() for nature in head.natures})) if head.natures else ()
    event = head.event.lower() if head.event is not None else None
    return Kind(event, bare_type(head.type) if head.type else "", natures, bool(head.size), service)


def is_request(obj: BusObject) -> bool:
    """Whether ``obj`` is a request, to which somebody may reply."""
    event = obj.head.event
    return event is not None and event.lower() == REQUEST


def kind_of_content(content_type: str, has_payload: bool, service: str | None = None) -> Kind:
    """The kind of content that is no event; see :class:`Kind` for ``service``."""
    return Kind(None, bare_type(content_type), (), has_payload, service)


def bare_type(content_type: str) -> str:
    """A content type, or a pattern of some, as it is compared: in lower case and without parameters."""
    return _bare_type(content_type[:MAX_TYPE])


@lru_cache(maxsize=1024)
def _bare_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def mode_interest(receive: Any, types: Any, settings: Settings, name: str = "types") -> ModeInterest:
    """The interest that a receive mode and content types, as they came, stand for; ``None`` is the default ``all``.

    :param settings: the limits.
    :param name: the name of the attribute with the content types, for the message.
    :raises Refused: ``bad-subscription``.
    """
    receive = "all" if receive is None else receive
    if receive not in RECEIVE_MODES:
        raise Refused(
            "bad-subscription", f"the receive mode is one of {', '.join(RECEIVE_MODES)}, not {quoted(receive)}"
        )
    if types is None or types == "all":
        return ModeInterest(receive, None)
    if types == "none":
        return ModeInterest(receive, ())
    if not isinstance(types, list) or not all(isinstance(each, str) for each in types):
        raise Refused("bad-subscription", f'{name} is "all", "none" or an array of content types')
    _check_number(len(types), settings.max_patterns, name, "content types")
    patterns = tuple(bare_type(each) for each in types)
    _check_wildcards(patterns, settings.max_wildcard_characters, name)
    return ModeInterest(receive, patterns)


def rule_interest(subscriptions: Any, settings: Settings) -> RuleInterest:
    """The interest that a rule list, as it came, stands for.

    One string holds rules separated by commas, with blanks around them or without; the string ``all`` means everything.

    :param settings: the limits.
    :raises Refused: ``bad-subscription``.
    """
    if subscriptions == "all":
        return RuleInterest(("*",))
    if isinstance(subscriptions, str):
        subscriptions = [rule for each in subscriptions.split(",") if (rule := each.strip())]
    if not isinstance(subscriptions, list):
        raise Refused("bad-subscription", 'subscriptions is an array of rules, rules separated by commas, or "all"')
    rules = tuple(_rule(each) for each in subscriptions)
    number = sum(1 if isinstance(rule, str) else len(rule) for rule in rules)
    _check_number(number, settings.max_patterns, "subscriptions", "rules")
    return RuleInterest(rules)


def _check_number(number: int, most: int, name: str, what: str) -> None:
    if number > most:
        message = f"{name} has at most {most} {what}, not {number}"
        raise OverLimit("bad-subscription", message, "max-patterns", most)


def _check_wildcards(patterns: tuple[str, ...], most: int, name: str) -> None:
    number = sum(len(pattern) for pattern in patterns if is_inner(pattern))
    if number > most:
        message = f"the content types of {name} with wildcards inside have at most {most} characters, not {number}"
        raise OverLimit("bad-subscription", message, "max-wildcard-characters", most)


def _rule(rule: Any) -> str | tuple[str, ...]:
    if isinstance(rule, str):
        return rule.lower()
    if isinstance(rule, list):
        return tuple(_flattened(rule))
    raise Refused("bad-subscription", "a rule is a string or an array of rules")


def _flattened(rules: list[Any]) -> list[str]:
    """Nested arrays in a nested array: the first match decides at any depth, so depth does not matter."""
    flat: list[str] = []
    for rule in rules:
        inner = _rule(rule)
        flat += [inner] if isinstance(inner, str) else inner
    return flat
