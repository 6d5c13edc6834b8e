"""The rules of a policy, and the permissions that they give. Pure.

A rule says whom it applies to, and has *clauses*: each allows or denies an action on the targets that a pattern
matches. Of the clauses of all rules that apply to a session, in the order of the file, the first that matches decides.
If none matches, the action is denied. :mod:`bussrv.policy.permissions.file` has the grammar.

Two kinds of targets are kept apart, so that a pattern for ordinary names does not open what is special:

1. Names that begin with ``bus/`` or ``$bus/`` match only patterns that begin so, too.
2. Events match only patterns that begin with ``@``; a lone ``*`` matches everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_network
from typing import Final, cast, get_args
from weakref import WeakValueDictionary

from msgspec import Struct

from bussrv.addresses import UNIX, is_in
from bussrv.options import Network
from bussrv.patterns import OrderedWildcards
from bussrv.policy.permissions.access import ANONYMOUS
from bussrv.policy.permissions.permissions import NOTHING, Action, Decision, Permissions
from bussrv.values import OWN_PREFIXES, PolicyRule, PolicyText

ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
SERVICE_ACTIONS: Final = frozenset[Action]({"provide", "publish", "watch", "request"})
CONTENT_ACTIONS: Final = frozenset[Action]({"send", "observe"})

EVERY_USER = "*"
"""The name that stands for every user who has proved who it is."""

DENIES = "!"
EVENT = "@"
ALL = "*"

MAX_TARGET = 1024
"""The most characters of a target. A longer one is denied: nothing that may be sent is called so."""

MAX_ANSWERS = 1024
"""The most answers that permissions remember."""

_KEPT = 4096
_SEVERAL = re.compile(r"\*{2,}")


class Clause(Struct, frozen=True):
    """One pattern of a rule, for one action.

    :ivar pattern: the pattern as in the file, with its ``!``. For ``admin`` it is ``read``, ``write`` or ``none``.
    :ivar line: the number of its line.
    """

    action: Action
    pattern: str
    line: int

    @property
    def allows(self) -> bool:
        """Whether it allows the targets that it matches; otherwise it denies them."""
        return not self.pattern.startswith(DENIES) and (self.action, self.pattern) != ("admin", "none")

    def matched(self) -> str:
        """The pattern that targets are compared with."""
        if self.action == "admin":
            return "read" if self.pattern == "read" else ALL
        pattern = _SEVERAL.sub(ALL, self.pattern.removeprefix(DENIES))
        return pattern.lower() if self.action in CONTENT_ACTIONS else pattern

    def __str__(self) -> str:
        return f'{self.action} = "{self.pattern}"'


class Rule(Struct, frozen=True):
    """A rule. A condition that is ``None`` holds for every session.

    :ivar line: the number of its first line.
    :ivar users: names, those of the members of its groups included.
    :ivar networks: networks, or ``unix``.
    :ivar formats: names of wire formats.
    :ivar clauses: the clauses in the order of the file.
    """

    line: int
    users: frozenset[str] | None = None
    networks: tuple[Network | str, ...] | None = None
    formats: frozenset[str] | None = None
    clauses: tuple[Clause, ...] = ()

    def is_for(self, user: str, protocol: str) -> bool:
        """Whether it may apply to a user with a wire format, if the address fits, too."""
        if self.formats is not None and protocol not in self.formats:
            return False
        if self.users is None or user in self.users:
            return True
        return EVERY_USER in self.users and user != ANONYMOUS

    def is_from(self, peer: str) -> bool:
        """Whether it applies to sessions that come from an address."""
        return self.networks is None or is_in(peer, self.networks)


def rule_of(told: PolicyRule, groups: Mapping[str, Iterable[str]]) -> Rule:
    """A rule, with the members of its groups among its users. A network that cannot be read is none."""
    users = None
    if told.users is not None or told.groups is not None:
        members = (user for name in told.groups or () for user in groups.get(name, ()))
        users = frozenset([*(told.users or ()), *members])
    return Rule(
        line=told.line,
        users=users,
        networks=None if told.networks is None else tuple(_networks(told.networks)),
        formats=None if told.formats is None else frozenset(told.formats),
        clauses=tuple(Clause(cast("Action", action), pattern, line) for action, pattern, line in told.clauses),
    )


def _networks(told: Iterable[str]) -> Iterator[Network | str]:
    for each in told:
        if each == UNIX:
            yield UNIX
        else:
            with suppress(ValueError):
                yield ip_network(each)


class Rules:
    """The rules of a file, in their order; a :class:`bussrv.policy.permissions.access.Policy`.

    :param told: what the file says, or what a journal says that it said.
    :ivar told: the same.
    """

    def __init__(self, told: PolicyText) -> None:
        self.told = told
        self._rules = tuple(rule_of(each, told.groups) for each in told.rules)
        self._name = told.name
        self._interned: WeakValueDictionary[tuple[int, ...], RulePermissions] = WeakValueDictionary()
        # Of sessions, most have few different users; their addresses differ, but hardly any rule looks at these.
        self._for = lru_cache(_KEPT)(self._find_for)
        self._of = lru_cache(_KEPT)(self._find_of)

    def __len__(self) -> int:
        return len(self._rules)

    def applying(self, user: str, peer: str, protocol: str) -> tuple[Rule, ...]:
        """The rules that apply to a session, in their order."""
        return tuple(self._rules[number] for number in self._for(user, protocol) if self._rules[number].is_from(peer))

    def line_of(self, clause: Clause) -> str:
        """A clause as decisions show it."""
        return shown(clause, self._name)

    def permissions(self, user: str, peer: str, protocol: str) -> Permissions:
        """The permissions of a session; see :class:`bussrv.policy.permissions.access.Policy`."""
        numbers = self._for(user, protocol)
        if any(self._rules[number].networks is not None for number in numbers):
            return self._of(numbers, peer)
        return self._of(numbers, UNIX)

    def _find_for(self, user: str, protocol: str) -> tuple[int, ...]:
        """The numbers of the rules that apply to a user with a wire format, at some address."""
        return tuple(number for number, rule in enumerate(self._rules) if rule.is_for(user, protocol))

    def _find_of(self, numbers: tuple[int, ...], peer: str) -> Permissions:
        applying = tuple(number for number in numbers if self._rules[number].is_from(peer))
        if not applying:
            return NOTHING
        found = self._interned.get(applying)
        if found is None:
            found = self._interned[applying] = RulePermissions([self._rules[each] for each in applying], self._name)
        return found


def shown(clause: Clause, name: str) -> str:
    """A clause with its place.

    :param name: the name of the file.
    """
    return f"{name}:{clause.line}: {clause}"


class RulePermissions:
    """The permissions that some rules give; :class:`bussrv.policy.permissions.permissions.Permissions`."""

    def __init__(self, rules: Iterable[Rule], name: str) -> None:
        self._name = name
        self._clauses = [clause for rule in rules for clause in rule.clauses]
        self._tables: dict[Action, ClauseTable] = {}
        self._none = Decision(False, f"{name}: no rule for this user allows it")
        self._answers: dict[tuple[Action, str], bool] = {}

    def decide(self, action: Action, target: str) -> Decision:
        """Whether an action is allowed, and by which line."""
        if len(target) > MAX_TARGET:
            return Decision(False, f"{self._name}: nothing of more than {MAX_TARGET} characters is allowed")
        clause = self._table(action).first(target)
        return self._none if clause is None else Decision(clause.allows, shown(clause, self._name))

    def may(self, action: Action, target: str) -> bool:
        """Whether an action is allowed. Some answers are remembered."""
        key = (action, target)
        answer = self._answers.get(key)
        if answer is None:
            if len(target) > MAX_TARGET:
                return False
            clause = self._table(action).first(target)
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            answer = self._answers[key] = clause is not None and clause.allows
        return answer

    def effort(self, action: Action) -> int:
        """How many steps a decision may take; see :class:`bussrv.policy.permissions.permissions.Permissions`."""
        return self._table(action).effort

    def sees_service(self, name: str) -> bool:
        """Whether the session may watch, request, provide or publish on a service."""
        may = self.may
        return may("watch", name) or may("request", name) or may("provide", name) or may("publish", name)

    def sees_session(self, routing_id: str) -> bool:
        """Whether the session may address another one."""
        return self.may("address", routing_id)

    def _table(self, action: Action) -> ClauseTable:
        table = self._tables.get(action)
        if table is None:
            table = self._tables[action] = ClauseTable(
                action, [each for each in self._clauses if each.action == action]
            )
        return table


class ClauseTable:
    """The clauses of one action, compiled. Special targets are compared apart from the others."""

    def __init__(self, action: Action, clauses: Iterable[Clause]) -> None:
        is_content = action in CONTENT_ACTIONS
        self._marks = OWN_PREFIXES if action in SERVICE_ACTIONS else (EVENT,) if is_content else ()
        special: list[Clause] = []
        ordinary: list[Clause] = []
        for clause in clauses:
            is_special = self._is_special(clause.matched())
            (special if is_special else ordinary).append(clause)
            if is_content and clause.matched() == ALL:
                special.append(clause)
        self._special, self._ordinary = _Ordered(special), _Ordered(ordinary)
        self.effort = max(self._special.effort, self._ordinary.effort)

    def _is_special(self, text: str) -> bool:
        return text.startswith(self._marks)

    def first(self, target: str) -> Clause | None:
        """The first clause that a target matches."""
        return (self._special if self._is_special(target) else self._ordinary).first(target)


class _Ordered:
    def __init__(self, clauses: Sequence[Clause]) -> None:
        self._clauses: Sequence[Clause | None] = [*clauses, None]
        self._patterns = OrderedWildcards(each.matched() for each in clauses)
        self.effort = self._patterns.effort

    def first(self, target: str) -> Clause | None:
        return self._clauses[self._patterns.first(target)]
