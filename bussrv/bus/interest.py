"""Who wants this: whether an interest lets an object pass. Pure.

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

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from bussrv.errors import OverLimit, Refused
from bussrv.values import OCTET_STREAM, Interest, ModeInterest, RuleInterest, quoted
from bussrv.wire.objects import BusObject

RECEIVE_MODES = ("none", "all", "no_echo", "events_only")

MAX_TYPE = 255
"""How many characters of a content type count; RFC 6838 allows no more."""


class Kind(Struct, frozen=True):
    """What an interest looks at in an object: all of it in lower case, the type without parameters.

    :ivar type: empty when the object has none.
    :ivar natures: sorted.
    :ivar has_payload: a payload without a type counts as ``application/octet-stream`` for mode interests.
    """

    event: str | None = None
    type: str = ""
    natures: tuple[str, ...] = ()
    has_payload: bool = False

    def length(self) -> int:
        """The characters of it."""
        return len(self.event or "") + len(self.type) + sum(map(len, self.natures)) + len(self.natures)


def kind_of(obj: BusObject) -> Kind:
    """What interests look at in ``obj``."""
    head = obj.head
    natures = tuple(sorted({nature.lower() for nature in head.natures})) if head.natures else ()
    event = head.event.lower() if head.event is not None else None
    return Kind(event, bare_type(head.type) if head.type else "", natures, bool(head.size))


def kind_of_content(content_type: str, has_payload: bool) -> Kind:
    """What interests look at in content that is no event."""
    return Kind(None, bare_type(content_type), (), has_payload)


def bare_type(content_type: str) -> str:
    """A content type, or a pattern of some, as it is compared: in lower case and without parameters."""
    return _bare_type(content_type[:MAX_TYPE])


@lru_cache(maxsize=1024)
def _bare_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def passes(interest: Interest, kind: Kind) -> bool:
    """Whether ``interest`` lets objects of that kind pass; that a session may not want its own is not asked here."""
    if isinstance(interest, ModeInterest):
        return _mode_passes(interest, kind)
    return _rules_pass(interest.rules, kind)


def _mode_passes(interest: ModeInterest, kind: Kind) -> bool:
    if interest.receive == "none":
        return False
    if kind.event is not None:
        return True
    if interest.receive == "events_only":
        return False
    if interest.types is None:
        return True
    content_type = kind.type or (OCTET_STREAM if kind.has_payload else "")
    return any(wildcard_matches(pattern, content_type) for pattern in interest.types)


def _rules_pass(rules: Sequence[str | tuple[str, ...]], kind: Kind) -> bool:
    verdict = False
    for rule in rules:
        if isinstance(rule, str):
            if _test_matches(rule.removeprefix("!"), kind):
                verdict = not rule.startswith("!")
            continue
        for inner in rule:
            if _test_matches(inner.removeprefix("!"), kind):
                return not inner.startswith("!")
    return verdict


def _test_matches(test: str, kind: Kind) -> bool:
    if test == "*":
        return True
    if test.startswith("#"):
        return _any_matches(test[1:], kind.natures)
    if test.startswith("@"):
        return kind.event is not None and _prefix_matches(test[1:], kind.event)
    return _prefix_matches(test, kind.type)


def _prefix_matches(pattern: str, text: str) -> bool:
    if pattern.endswith("*"):
        return text.startswith(pattern[:-1])
    return text == pattern


def _any_matches(pattern: str, texts: Sequence[str]) -> bool:
    """Whether one of some texts, which are sorted, matches: it would stand where the pattern would."""
    place = bisect_left(texts, pattern.removesuffix("*"))
    return place < len(texts) and _prefix_matches(pattern, texts[place])


def wildcard_matches(pattern: str, text: str) -> bool:
    """Whether ``text`` matches ``pattern``, in which ``*`` stands for any characters and ``?`` for one.

    Takes at most one step per character of ``text``, whatever the pattern: all places in the pattern that the text may
    have reached are kept in step, as the bits of one number.
    """
    steps, any_step, stays, end = _automaton(pattern)
    reached = 1
    for character in text:
        reached = (reached & steps.get(character, any_step)) << 1 | reached & stays
        if not reached:
            return False
    return bool(reached & end)


@lru_cache(maxsize=1024)
def _automaton(pattern: str) -> tuple[dict[str, int], int, int, int]:
    """What each character lets go on (others: only ``?`` does), where a ``*`` lets stay, and where the end is."""
    steps: dict[str, int] = {}
    any_step = stays = 0
    place = 1
    for character in pattern:
        if character == "*":
            stays |= place
            continue
        if character == "?":
            any_step |= place
        else:
            steps[character] = steps.get(character, 0) | place
        place <<= 1
    return {character: places | any_step for character, places in steps.items()}, any_step, stays, place


def mode_interest(receive: Any, types: Any, max_patterns: int, name: str = "types") -> ModeInterest:
    """The interest that a receive mode and content types, as they came, stand for; ``None`` is the default ``all``.

    :param max_patterns: the most content types: each is tried on every new kind of object.
    :param name: what the attribute of the content types is called, for the message.
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
    _check_number(len(types), max_patterns, name, "content types")
    return ModeInterest(receive, tuple(bare_type(each) for each in types))


def rule_interest(subscriptions: Any, max_patterns: int) -> RuleInterest:
    """The interest that a rule list, as it came, stands for; the bare string ``all`` means everything.

    :param max_patterns: the most rules: each is tried on every new kind of object.
    :raises Refused: ``bad-subscription``.
    """
    if subscriptions == "all":
        return RuleInterest(("*",))
    if not isinstance(subscriptions, list):
        raise Refused("bad-subscription", 'subscriptions is an array of rules, or "all"')
    rules = tuple(_rule(each) for each in subscriptions)
    number = sum(1 if isinstance(rule, str) else len(rule) for rule in rules)
    _check_number(number, max_patterns, "subscriptions", "rules")
    return RuleInterest(rules)


def _check_number(number: int, most: int, name: str, what: str) -> None:
    if number > most:
        message = f"{name} has at most {most} {what}, not {number}"
        raise OverLimit("bad-subscription", message, "max-patterns", most)


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
