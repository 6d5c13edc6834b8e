"""Learning a policy: the least one that allows what sessions did, as a policy file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from typing import get_args

from msgspec import Struct, field

from bussrv.policy.permissions.permissions import Action
from bussrv.policy.permissions.rules import DENIES
from bussrv.why.uses import Use

MOST_PATTERNS = 100
"""The most patterns of one action of a rule. If there are more, one pattern with their common beginning stands for
them."""

MEMBERS_MAY: tuple[tuple[Action, str], ...] = (("observe", "*"), ("address", "*"))
"""What a member may do besides: which objects it received, and which sessions it knew of, no journal says."""

LINKS_MAY: tuple[tuple[Action, str], ...] = (
    *(("tell", "*"), ("observe", "*"), ("address", "*"), ("send", "*"), ("publish", "*"), ("request", "*")),
    *(("watch", "*"), ("provide", "*")),
)
"""What a link may do besides: its own server judges its sessions."""

ORDER: tuple[Action, ...] = get_args(Action)


class _Rights(Struct):
    formats: set[str] = field(default_factory=set)
    targets: dict[Action, set[str]] = field(default_factory=lambda: defaultdict(set))


def learn(uses: Iterable[Use]) -> Iterator[str]:
    """The lines of a policy file that allows these uses, and little else."""
    users: dict[str, _Rights] = defaultdict(_Rights)
    for use in uses:
        rights = users[use.user]
        rights.formats.add(use.protocol)
        for action, target in _taken(use):
            rights.targets[action].add(target)
    together: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for user, rights in users.items():
        together[tuple(_rule(rights))].append(user)
    for rule, names in sorted(together.items(), key=lambda each: sorted(each[1])):
        yield ""
        yield "[[rule]]"
        yield f"users = {_list(sorted(names))}"
        yield from rule


def _taken(use: Use) -> Iterator[tuple[Action, str]]:
    """The rights that a use took."""
    for action in use.actions[:1]:
        yield action, use.target
        if action == "link":
            yield from LINKS_MAY
    if not use.actions:
        yield from MEMBERS_MAY


def _rule(rights: _Rights) -> Iterator[str]:
    yield f"formats = {_list(sorted(rights.formats))}"
    for action in ORDER:
        targets = rights.targets.get(action)
        if targets:
            yield f"{action} = {_list(_patterns(targets))}"


def _patterns(targets: set[str]) -> list[str]:
    if "*" in targets:
        # Names of the server's own are matched only by patterns that begin as they do.
        return sorted({"*", *(each for each in targets if each.startswith(("bus/", "$bus/")))})
    if len(targets) <= MOST_PATTERNS:
        return sorted(map(_pattern, targets))
    special = {each for each in targets if each.startswith(("bus/", "$bus/", "@"))}
    ordinary = targets - special
    shortened = {f"{_beginning(part)}*" for part in (special, ordinary) if part}
    return sorted(map(_pattern, shortened))


def _beginning(targets: Set[str]) -> str:
    """What all of these begin with: what the first and the last of them begin with."""
    first, last = min(targets), max(targets)
    alike = 0
    while alike < len(first) and first[alike] == last[alike]:
        alike += 1
    return first[:alike]


def _pattern(target: str) -> str:
    """A target as a pattern. One that begins with ``!`` would deny."""
    return f"?{target[1:]}" if target.startswith(DENIES) else target


def _list(texts: list[str]) -> str:
    return json.dumps(texts, ensure_ascii=False)
