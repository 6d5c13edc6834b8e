"""A trial of a policy: what it would have refused of what sessions did."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from bussrv.policy.permissions.permissions import NOTHING
from bussrv.policy.permissions.rules import Rules
from bussrv.why.uses import Use

MOST_ROWS = 10_000
"""The most rows of a trial. Further refusals are counted only."""


class Refusal(Struct):
    """Uses that a policy would have refused.

    :ivar action: the action, or ``join``.
    :ivar rule: the line that refuses it.
    :ivar count: how many uses.
    :ivar first: the record of the first one.
    """

    user: str
    action: str
    target: str
    protocol: str
    rule: str
    count: int
    first: int


class Trial(Struct):
    """The outcome.

    :ivar judged: how many uses were judged.
    :ivar refused: how many of them would have been refused, by action.
    :ivar refusals: the refusals, the most frequent first.
    :ivar further: how many refusals are not among them.
    """

    judged: int
    refused: dict[str, int]
    refusals: list[Refusal]
    further: int = 0


def try_policy(rules: Rules, uses: Iterable[Use]) -> Trial:
    """Judge uses by rules."""
    found: dict[tuple[str, str, str, str, str], Refusal] = {}
    trial = Trial(0, {}, [])
    for use in uses:
        trial.judged += use.count
        rule = _refusal(rules, use)
        if rule is None:
            continue
        trial.refused[use.what] = trial.refused.get(use.what, 0) + use.count
        key = (use.user, use.what, use.target, use.protocol, rule)
        known = found.get(key)
        if known is not None:
            known.count += use.count
        elif len(found) < MOST_ROWS:
            found[key] = Refusal(*key[:4], rule, use.count, use.seq)
        else:
            trial.further += use.count
    trial.refusals = sorted(found.values(), key=lambda each: (-each.count, each.first))
    return trial


def _refusal(rules: Rules, use: Use) -> str | None:
    """The line that refuses a use; ``None``: it is allowed."""
    permissions = rules.permissions(use.user, use.peer, use.protocol)
    if permissions is NOTHING:
        return "no rule applies to this user"
    decisions = [permissions.decide(action, use.target) for action in use.actions]
    if not decisions or any(each.allowed for each in decisions):
        return None
    return decisions[0].rule
