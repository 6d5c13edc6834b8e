"""The kinds of incidents, their thresholds, and which ones are the worst.

An incident that is about no finding of an audit is one of these:

1. ``guessing``: failed logins as one user from ``SOURCES`` addresses or more.
2. ``address``: all other failed logins of one address at one server, from ``NOTABLE`` on. Its refusals, denials of the
   policy and limits, and the sessions of its reconnect storms, likewise.
3. ``crash``: the crashes of one server.
4. ``identity``: the sessions that had one routing id at the same time.
5. ``takeover``: the returns to one durable session of another user than its own.
6. ``outage``: the outages of one service that began when a provider was lost, if one took ``LONG``. If its last
   provider left by itself, that is none.
7. ``witness``: the refusals of one witness to cosign the journal, or that it was away for long.

Others are conditions of a server:

8. ``link``: the link to one server, which should be there and is not, or over which objects were lost.
9. ``clock``: the clock of another server is not that of this one.

A running server knows one more, of which no record tells:

10. ``trouble``: a check of its health fails, or its clock was set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct

from bussrv.incidents.vocabulary import LOGIN

SOURCES = 3
"""Addresses."""

STORM = 10
"""The sessions in one minute from one address that make a reconnect storm."""

NOTABLE = STORM
"""Refusals, or sessions of a reconnect storm."""

LONG = 60
"""Seconds of an outage that stands out."""

MOST_EVENTS = 8
"""The most incidents of one kind that an audit lists."""

MOST_SOURCES = 8
"""The most addresses that an incident names."""


class Incident(Struct, frozen=True, kw_only=True):
    """Findings and events that belong together. Moments are UTC microseconds since 1970.

    :ivar what: a key of :data:`RULES`; of findings of an audit ``damage`` or ``session``.
    :ivar severity: of the worst finding; ``event`` if it is about no finding.
    :ivar number: of findings, of refusals, of crashes, of sessions at the same time, of takeovers, of outages, or of
        times that a witness said so, or how often a condition began.
    :ivar others: of addresses that guessed; of sessions in storms; of objects that were lost between servers, at
        least; of sessions that the findings are about.
    :ivar kinds: the kinds of findings, or the events of refusals.
    :ivar seconds: the longest outage, or the longest time without the server.
    :ivar lasts: whether that outage, or the condition, is not over at the last record; or the witness has not cosigned
        since.
    :ivar journal, segment, first_seq, last_seq: the place; without a number the time is the place.
    :ivar subject: the routing id, the session that was taken over, the service, the witness, the other server, or the
        name of the check.
    :ivar sources: some of the addresses that guessed.
    :ivar detail: a sentence about a condition, or the last one of a witness.
    """

    what: str
    server: str | None = None
    severity: str = "event"
    number: int = 0
    others: int = 0
    kinds: tuple[str, ...] = ()
    seconds: float | None = None
    lasts: bool = False
    begin: int | None = None
    end: int | None = None
    journal: str | None = None
    segment: int | None = None
    first_seq: int | None = None
    last_seq: int | None = None
    file: str | None = None
    line: int | None = None
    session: str | None = None
    subject: str | None = None
    address: str | None = None
    actor: str | None = None
    claimed: str | None = None
    sources: tuple[str, ...] = ()
    detail: str | None = None


class Happened(Struct, frozen=True):
    """Incidents that are about no finding.

    :ivar rows: the first of each kind, the worst first.
    :ivar numbers: how many there are of each kind that there is.
    """

    rows: tuple[Incident, ...] = ()
    numbers: dict[str, int] = {}

    @property
    def total(self) -> int:
        """How many there are."""
        return sum(self.numbers.values())


class Rule(Struct, frozen=True):
    """What makes sums an incident of a kind.

    :ivar holds: whether sums are one.
    :ivar weight: the greater, the worse.
    """

    holds: Callable[[Incident], bool]
    weight: Callable[[Incident], float]


RULES: Mapping[str, Rule] = {
    "guessing": Rule(lambda row: row.others >= SOURCES and row.number >= NOTABLE, lambda row: row.number),
    "address": Rule(lambda row: row.number + row.others >= NOTABLE, lambda row: row.number + row.others),
    "crash": Rule(lambda row: row.number > 0, lambda row: row.number),
    "identity": Rule(lambda row: row.number > 0, lambda row: row.number),
    "takeover": Rule(lambda row: row.number > 0, lambda row: row.number),
    "outage": Rule(lambda row: (row.seconds or 0) >= LONG, lambda row: row.seconds or 0),
    "witness": Rule(lambda row: row.number > 0, lambda row: row.number),
    "link": Rule(lambda row: row.number + row.others > 0, lambda row: row.lasts),
    "clock": Rule(lambda row: row.number > 0, lambda row: row.lasts),
    "trouble": Rule(lambda row: row.number > 0, lambda row: row.lasts),
}
"""The rule of each kind, in the order in which they are shown."""

LIVE_ONLY = frozenset({"trouble"})
"""The kinds that only a running server knows."""

CONDITIONS = LIVE_ONLY | {"link", "clock"}
"""The kinds that are conditions of a server."""


def is_incident(row: Incident) -> bool:
    """Whether sums are an incident."""
    return RULES[row.what].holds(row)


def happened(sums: Iterable[Incident], left_out: Mapping[str, int] | None = None, most: int = MOST_EVENTS) -> Happened:
    """The incidents among sums.

    :param left_out: how many lighter ones of each kind are not among ``sums``. The source of the sums counted them.
    :param most: the most of each kind that are listed.
    """
    by_kind: dict[str, list[Incident]] = {what: [] for what in RULES}
    for row in sums:
        if is_incident(row):
            by_kind[row.what].append(row)
    rows: list[Incident] = []
    numbers: dict[str, int] = {}
    for what, found in by_kind.items():
        rows += sorted(found, key=order)[:most]
        number = len(found) + (left_out or {}).get(what, 0)
        if number:
            numbers[what] = number
    return Happened(tuple(rows), numbers)


def order(row: Incident) -> tuple[Any, ...]:
    """The sort key of incidents of one kind, the worst first. It tells them apart."""
    names = (row.server, row.begin, row.subject, row.address, row.claimed, row.first_seq)
    return (-RULES[row.what].weight(row), *((each is None, each if each is not None else 0) for each in names))


def key_of(row: Incident) -> tuple[str | None, ...]:
    """What an incident is about. Two that go on at the same time differ in it."""
    user = row.claimed if row.what == "guessing" else None
    # The address of another server is not the same each time.
    address = None if row.what in CONDITIONS else row.address
    return row.what, row.server, row.subject, address, user, LOGIN if LOGIN in row.kinds else None


def id_of(row: Incident) -> str:
    """A short name of an incident: a digest of what it is about, and when it began.

    Names of strangers may be long, and hold anything.
    """
    about = (*key_of(row), str(row.begin))
    return sha256("\0".join(each or "" for each in about).encode("utf-8", "surrogatepass")).hexdigest()[:12]


GRAVE, SERIOUS, MINOR = 3, 2, 1

WEIGHT_NAMES = {GRAVE: "grave", SERIOUS: "serious", MINOR: "minor"}

WEIGHTS = {
    "takeover": GRAVE,
    "guessing": GRAVE,
    "crash": SERIOUS,
    "outage": SERIOUS,
    "witness": SERIOUS,
    "link": SERIOUS,
    "clock": SERIOUS,
    "trouble": SERIOUS,
    "identity": SERIOUS,
    "address": MINOR,
}
"""How much an incident of each kind weighs."""

GRAVE_TROUBLES = frozenset({"journal", "disk", "clock"})
"""Conditions with which the server refuses changes, or its records are in doubt."""


def weight_of(row: Incident) -> int:
    """How much an incident weighs: ``GRAVE``, ``SERIOUS`` or ``MINOR``."""
    is_grave = row.what == "trouble" and row.subject in GRAVE_TROUBLES
    return GRAVE if is_grave else WEIGHTS[row.what]
