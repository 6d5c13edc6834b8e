"""Matching: whether an interest lets objects of a kind pass, compiled once for each interest. Pure.

The semantics are those of :mod:`bussrv.bus.interest.interests`. To compare a kind takes a few bisections for each
interest, however many patterns or rules it has, and one step for each character of patterns with wildcards inside. The
number of these characters is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bussrv.bus.interest.interests import Kind
from bussrv.bus.interest.vocabulary import SERVERS_ONLY
from bussrv.patterns import Ranges, SimplePattern, Wildcards
from bussrv.policy.permissions.permissions import EVERYTHING, Action, Permissions, content
from bussrv.values import OCTET_STREAM, Interest, ModeInterest, RuleInterest

RECEIVING: tuple[Action, ...] = ("observe", "watch")
"""The actions that :func:`right_to_receive` asks for."""

Matcher = Callable[[Kind], bool]
"""Whether objects of a kind pass. It does not ask whether a session wants its own objects."""


def compile_interest(interest: Interest | None) -> Matcher:
    """The matcher of an interest; :func:`nothing` if no object can pass."""
    if interest is None or (isinstance(interest, RuleInterest) and not interest.rules):
        return nothing
    return _modes(interest) if isinstance(interest, ModeInterest) else _Rules(interest).match


def permitted(match: Matcher, permissions: Permissions) -> Matcher:
    """A matcher that also asks whether a session with these permissions may receive objects of a kind.

    Events that only servers send are the server's own: their sender decides who is told.
    """
    if permissions is EVERYTHING:
        return match
    # Rules are compiled when they are first needed: now, for the client that joins, not for a thousand at an object.
    for action in RECEIVING:
        permissions.effort(action)
    return lambda kind: match(kind) and (kind.event in SERVERS_ONLY or permissions.may(*right_to_receive(kind)))


def right_to_receive(kind: Kind) -> tuple[Action, str]:
    """The action and target that a session must be allowed, to be given objects of a kind that are for everybody."""
    return ("observe", content(kind.event, kind.type)) if kind.service is None else ("watch", kind.service)


def nothing(_: Kind) -> bool:
    """The matcher that lets no object pass."""
    return False


def _everything(_: Kind) -> bool:
    return True


def _events(kind: Kind) -> bool:
    return kind.event is not None


def _modes(interest: ModeInterest) -> Matcher:
    if interest.receive == "none":
        return nothing
    if interest.receive == "events_only":
        return _events
    if interest.types is None:
        return _everything
    match = Wildcards(interest.types).match
    return lambda kind: kind.event is not None or match(kind.type or (OCTET_STREAM if kind.has_payload else ""))


class _Rules:
    """A rule list as a list in which the first match decides.

    A match inside a nested array decides at once, so these rules come first, in order. Of the others the last match
    decides, so they follow in reverse order.
    """

    def __init__(self, interest: RuleInterest) -> None:
        types: list[SimplePattern] = []
        events: list[SimplePattern] = []
        natures: list[SimplePattern] = []
        self._verdicts: list[bool] = []
        self._always = none = sum(1 for _ in _first_to_decide(interest))
        for rank, rule in enumerate(_first_to_decide(interest)):
            self._verdicts.append(not rule.startswith("!"))
            test = rule.removeprefix("!")
            if test == "*":
                self._always = min(self._always, rank)
                continue
            chosen = {"#": natures, "@": events}.get(test[:1], types)
            pattern = test if chosen is types else test[1:]
            chosen.append(SimplePattern(pattern.removesuffix("*"), pattern.endswith("*"), rank))
        self._verdicts.append(False)
        self._types, self._events = Ranges(types, none), Ranges(events, none)
        self._natures = Ranges(natures, none) if natures else None

    def match(self, kind: Kind) -> bool:
        """Whether objects of that kind pass."""
        lowest = min(self._always, self._types.lowest(kind.type))
        if kind.event is not None:
            lowest = min(lowest, self._events.lowest(kind.event))
        if self._natures is not None and kind.natures:
            lowest = min(lowest, *map(self._natures.lowest, kind.natures))
        return self._verdicts[lowest]


def _first_to_decide(interest: RuleInterest) -> Iterator[str]:
    for rule in interest.rules:
        if not isinstance(rule, str):
            yield from rule
    for rule in reversed(interest.rules):
        if isinstance(rule, str):
            yield rule
