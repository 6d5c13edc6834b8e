"""The policy file: TOML, read into rules. All its faults are reported together.

::

    [groups]
    NAME = [user, …]

    [[rule]]
    users = [user, …]                   # "*": every user who has proved who it is
    groups = [NAME, …]
    networks = [network, …]             # or "unix"
    formats = [wire format, …]
    provide = [pattern, …]              # and publish, watch, request, address, link, tell
    send = [pattern, …]                 # and observe: of content types; after "@", of events
    admin = "read" | "write" | "none"

A rule applies to sessions for which all its conditions hold; ``users`` and ``groups`` are one condition. In a pattern
``*`` stands for any characters and ``?`` for one; ``!`` before it denies. One value need not stand in an array.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from hashlib import sha256
from ipaddress import IPv6Network, ip_network
from pathlib import Path
from typing import Any, Final

from bussrv import toml_lines
from bussrv.errors import BadValue, ConfigError, named
from bussrv.options import NetworkOrUnix
from bussrv.patterns import is_inner
from bussrv.policy.logins.trusted_files import read_trusted
from bussrv.policy.permissions.permissions import Action
from bussrv.policy.permissions.rules import (
    ACTIONS,
    ALL,
    CONTENT_ACTIONS,
    EVENT,
    EVERY_USER,
    Clause,
    ClauseTable,
    Rules,
)
from bussrv.toml_lines import Document
from bussrv.values import PolicyRule, PolicyText, shown

MAX_FILE = 256 << 10
"""The most bytes of a file."""

MAX_RULES = 1000
MAX_CLAUSES = 10_000
"""The most patterns of all rules together."""

MAX_WILDCARD_CHARACTERS = 16_384
"""The most characters of all patterns together that have wildcards other than one ``*`` at an end. Such a pattern is
compared by itself, so they are what a decision takes."""

MAX_NAME = 255
"""The most bytes of a user, a group or a pattern."""

MAX_FAULTS = 50
"""The most faults that are reported."""

ADMIN = ("read", "write", "none")
CONDITIONS: Final = ("users", "groups", "networks", "formats")

_NETWORK = NetworkOrUnix(unix=True)
_MAPPED = ip_network("::ffff:0:0/96")


def read_policy(path: Path, place: str, formats: Collection[str]) -> Rules:
    """Read and check a file.

    :param place: the option or line that gave its path.
    :param formats: the names of the wire formats that are installed.
    :raises ConfigError: has a sentence for each fault, with the line.
    """
    return parse_policy(read_text(path, place), path, formats)


def read_text(path: Path, place: str) -> str:
    """The text of a file; see :func:`read_policy`."""
    with named(place):
        return read_trusted(path, MAX_FILE)


def parse_policy(text: str, path: Path, formats: Collection[str]) -> Rules:
    """The rules that the text of a file stands for; see :func:`read_policy`."""
    try:
        document = toml_lines.read(text)
    except toml_lines.NotToml as error:
        raise ConfigError(error.within(path)) from error
    reader = _PolicyReader(document, formats)
    rules = list(reader.rules())
    if reader.faults:
        faults = [f"{path}:{line}: {sentence}" for line, sentence in sorted(dict.fromkeys(reader.faults))]
        more = [f"{path}: and {len(faults) - MAX_FAULTS} more faults"] if len(faults) > MAX_FAULTS else []
        raise ConfigError(*faults[:MAX_FAULTS], *more)
    return Rules(reader.told(path.name, text, rules))


class _PolicyReader:
    """Reads one document.

    :ivar faults: each with its line.
    """

    def __init__(self, document: Document, formats: Collection[str]) -> None:
        self.faults: list[tuple[int, str]] = []
        self._values, self._lines = document
        self._formats = formats
        self._clauses = 0
        self._wildcard_characters = 0
        self._groups = dict(self._read_groups())

    def told(self, name: str, text: str, rules: list[PolicyRule]) -> PolicyText:
        """What was read.

        :param name: the name of the file.
        :param text: what stands in it.
        """
        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        groups = {group: tuple(users) for group, users in self._groups.items()}
        return PolicyText(name=name, digest=digest, groups=groups, rules=tuple(rules))

    def _fault(self, path: toml_lines.Path, sentence: str) -> None:
        self.faults.append((self._line(path), sentence))

    def _line(self, path: toml_lines.Path) -> int:
        while path not in self._lines and len(path) > 1:
            path = path[:-1]
        return self._lines.get(path, 1)

    def _read_groups(self) -> Iterator[tuple[str, list[str]]]:
        groups = self._values.get("groups", {})
        if not isinstance(groups, dict):
            self._fault(("groups",), "groups is not a table of lists of users")
            return
        for name, users in groups.items():
            path = ("groups", name)
            self._check_name(path, name, "a group")
            yield name, self._names(path, users, "a user", may_be_empty=True)

    def rules(self) -> Iterator[PolicyRule]:
        """The rules, in order."""
        for key in self._values:
            if key not in ("groups", "rule"):
                self._fault((key,), f"there is no table {shown(key)}: there are [groups] and [[rule]]")
        rules = self._values.get("rule", [])
        if not isinstance(rules, list) or not all(isinstance(each, dict) for each in rules):
            self._fault(("rule",), "rule is not an array of tables: begin each rule with [[rule]]")
            return
        if len(rules) > MAX_RULES:
            self._fault(("rule", MAX_RULES), f"there are {len(rules)} rules; the most is {MAX_RULES}")
            return
        for number, values in enumerate(rules):
            yield self._rule(("rule", number), values)

    def _rule(self, path: toml_lines.Path, values: dict[str, Any]) -> PolicyRule:
        for key in values:
            if key not in (*CONDITIONS, *ACTIONS):
                known = ", ".join((*CONDITIONS, *ACTIONS))
                self._fault((*path, key), f"there is no key {shown(key)} in a rule: there are {known}")
        clauses = [clause for key in values if key in ACTIONS for clause in self._clauses_of(path, key, values[key])]
        if values.keys() <= set(CONDITIONS):
            self._fault(path, "the rule says of no action whether it is allowed")
        return PolicyRule(
            line=self._lines.get(path, 1),
            users=self._condition(path, values, "users", self._user_names),
            groups=self._condition(path, values, "groups", self._group_names),
            networks=self._condition(path, values, "networks", self._networks),
            formats=self._condition(path, values, "formats", self._format_names),
            clauses=tuple((each.action, each.pattern, each.line) for each in clauses),
        )

    # Conditions.

    def _condition(
        self, path: toml_lines.Path, values: dict[str, Any], key: str, read: Callable[[toml_lines.Path, Any], Any]
    ) -> Any:
        return read((*path, key), values[key]) if key in values else None

    def _user_names(self, path: toml_lines.Path, value: Any) -> tuple[str, ...]:
        return tuple(self._names(path, value, "a user", also=EVERY_USER))

    def _group_names(self, path: toml_lines.Path, value: Any) -> tuple[str, ...]:
        groups = self._names(path, value, "a group")
        for place, name in enumerate(groups):
            if name not in self._groups:
                self._fault((*path, place), f"there is no group {shown(name)}")
        return tuple(groups)

    def _networks(self, path: toml_lines.Path, value: Any) -> tuple[str, ...]:
        found: list[str] = []
        for place, text in enumerate(self._texts(path, value)):
            try:
                network = _NETWORK.check(text)
            except BadValue as error:
                self._fault((*path, place), f"networks: {error}")
                continue
            if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):  # type: ignore[arg-type]
                self._fault((*path, place), f"networks: {text} holds IPv4 addresses: write them as such")
            found.append(str(network))
        return tuple(found)

    def _format_names(self, path: toml_lines.Path, value: Any) -> tuple[str, ...]:
        names = self._texts(path, value)
        for place, name in enumerate(names):
            if name not in self._formats:
                known = ", ".join(sorted(self._formats))
                self._fault((*path, place), f"there is no wire format {shown(name)}: there are {known}")
        return tuple(names)

    # Actions.

    def _clauses_of(self, path: toml_lines.Path, action: Action, value: Any) -> list[Clause]:
        path = (*path, action)
        if action == "admin":
            if value not in ADMIN:
                self._fault(path, f"admin: {shown(value)} is none of {', '.join(ADMIN)}")
                return []
            return [Clause(action, value, self._line(path))]
        clauses = []
        for place, pattern in enumerate(self._texts(path, value)):
            clause = Clause(action, pattern, self._line((*path, place)))
            self._check_pattern((*path, place), clause)
            clauses.append(clause)
        if not all(each.allows for each in clauses):
            self._check_order(path, clauses)
        self._count(path, clauses)
        return clauses

    def _check_pattern(self, path: toml_lines.Path, clause: Clause) -> None:
        pattern = clause.matched()
        self._check_name(
            path, pattern.removeprefix(EVENT) if clause.action in CONTENT_ACTIONS else pattern, "a pattern"
        )
        if clause.action in CONTENT_ACTIONS and not pattern.startswith(EVENT) and ";" in pattern:
            self._fault(
                path, f"{clause.action}: content types are compared without parameters: leave out what follows ;"
            )

    def _check_order(self, path: toml_lines.Path, clauses: list[Clause]) -> None:
        """A denial after a pattern that allows the same is a mistake. Patterns that are compared alone are left out."""
        places = {clause: place for place, clause in reversed(list(enumerate(clauses)))}
        allowing = ClauseTable(
            clauses[0].action, [each for each in clauses if each.allows and not is_inner(each.matched())]
        )
        for clause, place in places.items():
            hides = None if clause.allows else allowing.first(clause.matched())
            if hides is not None and places[hides] < place:
                sentence = f"{clause} never decides, because {hides.pattern} comes first, and the first match decides"
                self._fault((*path, place), sentence)

    def _count(self, path: toml_lines.Path, clauses: list[Clause]) -> None:
        before = self._clauses, self._wildcard_characters
        self._clauses += len(clauses)
        self._wildcard_characters += sum(len(each.pattern) for each in clauses if is_inner(each.matched()))
        if before[0] <= MAX_CLAUSES < self._clauses:
            self._fault(path, f"there are more than {MAX_CLAUSES} patterns, the most there can be")
        if before[1] <= MAX_WILDCARD_CHARACTERS < self._wildcard_characters:
            most = f"the most there can be is {MAX_WILDCARD_CHARACTERS} characters"
            self._fault(path, f"patterns with wildcards elsewhere than one * at an end are too long in all: {most}")

    # Values.

    def _names(
        self, path: toml_lines.Path, value: Any, what: str, also: str = "", *, may_be_empty: bool = False
    ) -> list[str]:
        names = self._texts(path, value, may_be_empty=may_be_empty)
        for place, name in enumerate(names):
            if name != also or not also:
                self._check_name((*path, place), name, what)
                if ALL in name:
                    self._fault((*path, place), f"{shown(name)}: {what} is named without wildcards")
        return names

    def _check_name(self, path: toml_lines.Path, name: str, what: str) -> None:
        size = len(name.encode("utf-8", "surrogatepass"))
        if not 1 <= size <= MAX_NAME:
            self._fault(path, f"{shown(name)} has {size} bytes; {what} has 1 to {MAX_NAME}")
        if not name.isprintable() or name != name.strip():
            self._fault(path, f"{shown(name)} holds characters that cannot be printed, or a blank at an end")

    def _texts(self, path: toml_lines.Path, value: Any, *, may_be_empty: bool = False) -> list[str]:
        """Texts, of which one alone need not stand in an array."""
        values = value if isinstance(value, list) else [value]
        key = path[-1]
        if not values and not may_be_empty:
            self._fault(path, f"{key} is empty: leave it out, or name something")
        for place, each in enumerate(values):
            if not isinstance(each, str):
                self._fault((*path, place), f"{key}: {shown(each)} is not a text")
        return [each for each in values if isinstance(each, str)]
