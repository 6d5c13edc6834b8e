from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from bussrv import events as ev
from bussrv.journal.record import Record
from tests.audit import troubles
from tests.audit.frames import Answers, Rows, in_order, tables
from tests.audit.journals import START, STEP, Writer
from tests.audit.oracles import leases as oracle
from tests.size import sized

pytestmark = pytest.mark.dear

ABOUT: dict[str, Any] = {
    "session": "hall-1.1",
    "protocol": "inbus",
    "peer": "192.0.2.1:5",
    "routing_id": "r",
    "service": "tv",
}
ADDED, RENEWED = ev.SubscriptionAdded(**ABOUT), ev.SubscriptionRenewed(**ABOUT)
REMOVED = ev.SubscriptionRemoved(**ABOUT)
EXPIRED = ev.SubscriptionRemoved(reason="lease-expired", **ABOUT)
UNREACHABLE = ev.SubscriptionRemoved(reason="inbus-unreachable", **ABOUT)
REGISTERED = ev.ServiceRegistered(**ABOUT)
SILENT = ev.ServiceUnregistered(reason="lease-expired", **ABOUT)

# What is written from record 5 on; and of each lease that ran out: which record began it, which renewed it last, which
# ended it, how many renewed it, and the rest.
CASES: dict[str, tuple[list[ev.Event], list[tuple[Any, ...]]]] = {
    "never renewed": ([ADDED, EXPIRED], [(5, None, 6, 0, "subscription", "lease-expired")]),
    "renewed": ([ADDED, RENEWED, RENEWED, EXPIRED], [(5, 7, 8, 2, "subscription", "lease-expired")]),
    "nobody listens": ([ADDED, UNREACHABLE], [(5, None, 6, 0, "subscription", "inbus-unreachable")]),
    "asked for": ([ADDED, RENEWED, REMOVED], []),
    "added again": ([ADDED, RENEWED, REMOVED, ADDED, EXPIRED], [(8, None, 9, 0, "subscription", "lease-expired")]),
    "twice": (
        [ADDED, RENEWED, EXPIRED, ADDED, EXPIRED],
        [(5, 6, 7, 1, "subscription", "lease-expired"), (8, None, 9, 0, "subscription", "lease-expired")],
    ),
    "begun before": ([RENEWED, EXPIRED], [(None, 5, 6, 1, "subscription", "lease-expired")]),
    "two services": (
        [ADDED, ev.SubscriptionAdded(**{**ABOUT, "service": "radio"}), EXPIRED],
        [(5, None, 7, 0, "subscription", "lease-expired")],
    ),
    "a publisher": ([REGISTERED, SILENT], [(5, None, 6, 0, "service", "lease-expired")]),
    "of another wire format": ([ev.SubscriptionRemoved(**{**ABOUT, "protocol": "spp"}, reason="lease-expired")], []),
}


def written(events: list[ev.Event], server: str = "hall") -> list[Record]:
    writer = Writer(server, seq=5)
    for each in events:
        writer.write(each)
    return writer.records


def time_of(seq: int | None) -> int | None:
    return seq and START + STEP * seq


EVER: tuple[int | None, int | None] = (None, None)
CLIPPED = (START + 3 * STEP, START + 30 * STEP)

LONG_AGO = "begun long ago"
"""A server whose journal only says that a lease ran out, and before its first record, that it was there."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Each case is a server of its own, among those that are drawn."""
    place = tmp_path_factory.mktemp("leases")
    planned = [each for name, (events, _) in CASES.items() for each in written(events, name)]
    planned += written([EXPIRED], LONG_AGO)
    records = [*planned, *troubles.draw(sized(100), troubles.LEASES), *troubles.synthetic()]
    begun = replace(ADDED, session="a")
    given = [Record(0, START - number, 3, f"server{number}", "x", begun) for number in range(0, 100, 2)]
    given.append(Record(4, START - 7, 3, LONG_AGO, "hall-1", replace(ADDED, protocol=None)))
    answers = Answers({}, {})
    for since, until in (EVER, CLIPPED):
        some = [each for each in records if until is None or each.time < until]
        found = tables(["leases"], place / f"{until}", some, given, since, until)["leases"]
        answers.found[since, until] = in_order(found)
        answers.expected[since, until] = in_order(oracle.leases(some, given, since, until))
    return answers


def of_server(found: Rows, server: str) -> Rows:
    return [row for row in found if row["server"] == server]


@pytest.mark.parametrize("name", CASES)
def test_leases(answers: Answers, name: str) -> None:
    expected = [
        {
            "server": name,
            "session": "hall-1.1",
            "kind": kind,
            "routing_id": "r",
            "address": "192.0.2.1",
            "service": "tv",
            "added": time_of(added),
            "renewed": time_of(renewed),
            "expired": time_of(ended),
            "renewals": renewals,
            "reason": reason,
        }
        for added, renewed, ended, renewals, kind, reason in CASES[name][1]
    ]
    assert of_server(answers.found[EVER], name) == in_order(expected)


def test_what_was_given_began_before(answers: Answers) -> None:
    [row] = of_server(answers.found[EVER], LONG_AGO)
    assert (row["added"], row["renewals"]) == (START - 7, 0)


@pytest.mark.parametrize("period", [EVER, CLIPPED], ids=["ever", "in a period"])
def test_the_oracle_finds_the_same(answers: Answers, period: tuple[int | None, int | None]) -> None:
    found = answers.found[period]
    assert found == answers.expected[period]
    assert {row["kind"] for row in found} == {"subscription", "service"}
    assert any(row["renewals"] for row in found)
    assert any((row["added"] or START) < START for row in found)
