"""The policy that is in effect: read from its file at the start, and again at each reload."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bussrv.admin.http.login import PROTOCOL
from bussrv.bus.interfaces import Effects, IBus, Use
from bussrv.interfaces import IWireFormat
from bussrv.options import rows
from bussrv.policy.permissions.file import parse_policy, read_policy, read_text
from bussrv.policy.permissions.rules import Rules
from bussrv.server.configuration.config import Config
from bussrv.settings import Settings
from bussrv.values import InEffect


class PolicyInEffect:
    """Reads policies, and puts them into effect. A file that says the same as before is not parsed again.

    :param formats: the wire formats that are installed.
    """

    def __init__(self, bus: IBus, formats: Iterable[IWireFormat]) -> None:
        self._bus = bus
        self._formats = [*(each.name for each in formats), PROTOCOL]
        self._parsed: tuple[Path, str, Rules] | None = None

    def prepare(self, config: Config) -> Use:
        """Read and check the policy of a configuration. Nothing changes yet.

        :returns: puts it into effect; cannot fail.
        :raises ConfigError: has a sentence for each fault.
        """
        rules = self._read(config)

        def use() -> Effects:
            before, self._bus.access.policy = self._bus.access.policy, rules
            is_read_again = rules is not None and before is not None and rules is not before
            words = f"policy {config.policy}: rules: {len(rules)}" if rules is not None else ""
            return Effects((words,) if is_read_again else (), self._bus.policy_changed())

        return use

    def _read(self, config: Config) -> Rules | None:
        path = config.policy
        if path is None:
            return None
        text = read_text(path, config.place("policy"))
        if self._parsed is None or self._parsed[:2] != (path, text):
            self._parsed = path, text, parse_policy(text, path, frozenset(self._formats))
        return self._parsed[2]


def in_effect(bus: IBus) -> InEffect:
    """The rules in effect now, for the journal: policy, limits, and whether clients must prove who they are.

    Limits are the numbers of options with ``max`` in their names, as they are within the descriptors of this process.
    """
    policy = bus.access.policy
    settings = {each.name: getattr(bus.settings, each.sets) for each in rows(Settings) if "max" in each.name.split("-")}
    limits = {name: value for name, value in settings.items() if isinstance(value, int)}
    return InEffect(asks=bus.access.asks, policy=policy.told if isinstance(policy, Rules) else None, limits=limits)


def read(config: Config, formats: Iterable[str]) -> Rules | None:
    """The rules of the policy that a configuration names; ``None``: it names none.

    :param formats: the names of the wire formats that are installed.
    :raises ConfigError: has a sentence for each fault.
    """
    names = frozenset([*formats, PROTOCOL])
    return None if config.policy is None else read_policy(config.policy, config.place("policy"), names)
