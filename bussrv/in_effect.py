"""The rules in effect, as the journal tells them: policy, limits, and whether clients must prove who they are. Pure.

``server.started`` and ``config.reloaded`` carry them, and so does the snapshot at the beginning of each segment. So
each decision of the past can be made again. There is nothing secret among them: names, patterns and numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_network

from msgspec import Struct
from msgspec.structs import replace


class PolicyRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule of a policy, in the words of its file. A condition that is ``None`` holds for every session.

    :ivar line: the number of its first line.
    :ivar users: names of users; with ``groups`` one condition.
    :ivar groups: names of groups.
    :ivar networks: networks, or ``unix``.
    :ivar formats: names of wire formats.
    :ivar clauses: the action, the pattern and the line of each pattern, in the order of the file.
    """

    line: int
    users: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    networks: tuple[str, ...] | None = None
    formats: tuple[str, ...] | None = None
    clauses: tuple[tuple[str, str, int], ...] = ()


class PolicyText(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rules of a policy file.

    :ivar name: the name of the file, without its directory.
    :ivar digest: the SHA-256 of the file, in hexadecimal digits; ``None`` in a journal with pseudonyms, where a
        guess of the names could be held against it.
    :ivar groups: the users in each group.
    :ivar rules: the rules, in the order of the file.
    """

    name: str
    digest: str | None = None
    groups: dict[str, tuple[str, ...]] = {}
    rules: tuple[PolicyRule, ...] = ()


class InEffect(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rules in effect.

    :ivar asks: whether clients must prove who they are, because there is something to check that with.
    :ivar policy: ``None``: there is no policy.
    :ivar limits: the limits, by the names of their options.
    """

    asks: bool = False
    policy: PolicyText | None = None
    limits: dict[str, int] = {}


def with_names(rules: InEffect, actor: Callable[[str], str], peer: Callable[[str], str]) -> InEffect:
    """The rules with other names of users, and other addresses of single hosts; larger networks stay.

    :param actor: says what stands for a user.
    :param peer: says what stands for an address.
    """
    policy = rules.policy
    if policy is None:
        return rules

    def users(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(each if each in ("*", "anonymous") else actor(each) for each in names)

    def networks(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(peer(_host(each) or each) if _host(each) else each for each in names)

    named = tuple(
        replace(
            each,
            users=None if each.users is None else users(each.users),
            networks=None if each.networks is None else networks(each.networks),
        )
        for each in policy.rules
    )
    groups = {name: users(members) for name, members in policy.groups.items()}
    return replace(rules, policy=replace(policy, digest=None, groups=groups, rules=named))


def _host(network: str) -> str | None:
    """The address of a network of one host; ``None`` for every other network, and for what is no network."""
    try:
        found = ip_network(network)
    except ValueError:
        return None
    return str(found.network_address) if found.num_addresses == 1 else None
