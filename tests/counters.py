"""Counters that know which names there are."""

from collections import Counter

from bussrv.errors import COUNTERS, REASONS

UNKNOWN: set[str] = set()
"""What was counted in this process under a name that is nowhere explained."""


class KnownCounters(Counter[str]):
    """Notes unknown names: what is raised while a client is served would end as ``internal-error``."""

    def __setitem__(self, name: str, value: int) -> None:
        if name not in REASONS and name not in COUNTERS:
            UNKNOWN.add(name)
        super().__setitem__(name, value)
