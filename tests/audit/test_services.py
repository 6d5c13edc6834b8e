from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.journal.record import Record
from tests.audit import activities
from tests.audit.frames import in_order, tables
from tests.audit.journals import START, STEP, Writer
from tests.audit.oracles import services as oracle
from tests.size import sized

pytestmark = [pytest.mark.dear, pytest.mark.timeout(600)]

MIDDLE = START + 6 * STEP


@dataclass
class Said:
    spans: list[dict[str, Any]]
    uptimes: list[dict[str, Any]]
    services: list[dict[str, Any]]
    orphans: list[dict[str, Any]]


def said_of(place: Path, collected: activities.Collected, since: int | None = None) -> Said:
    names = ("spans", "uptimes", "services", "orphans")
    found = tables((*names, "numbered"), place, collected.records, collected.given, since)
    known = {row.pop("number"): row for row in found["numbered"]}
    found["spans"] = [{**known[row.pop("number")], **row} for row in found["spans"]]
    return Said(*[in_order(found[name]) for name in names])


def expected(records: list[Record], given: list[Record], since: int | None = None) -> Said:
    answer = oracle.answer(records, given, since)
    up = [(key, *each) for key, some in answer.uptimes.items() for each in some]
    return Said(
        in_order(map(asdict, answer.spans)),
        in_order(
            {"server": key[0], "service": key[1], "begin": begin, "end": end, "lost": lost}
            for key, begin, end, lost in up
        ),
        in_order({"server": key[0], "service": key[1], **row} for key, row in answer.services.items()),
        in_order(map(waiting, answer.orphans)),
    )


def waiting(want: oracle.Span) -> dict[str, Any]:
    row = {**asdict(want), "waited_seconds": (want.end - want.begin) / 1_000_000}
    del row["is_provided"], row["lost"]
    return row


def agree(said: Said, wanted: Said) -> None:
    assert said.spans == wanted.spans
    assert said.uptimes == wanted.uptimes
    assert said.orphans == wanted.orphans
    assert len(said.services) == len(wanted.services)
    for mine, other in zip(said.services, wanted.services, strict=True):
        assert mine == pytest.approx(other), other


@dataclass
class Answers:
    """The answers of the audit and of a plain program about records."""

    said: Said
    wanted: Said

    def of(self, server: str) -> Said:
        """The answers of the audit about one server."""

        def mine(some: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [row for row in some if row["server"] == server]

        said = self.said
        return Said(mine(said.spans), mine(said.uptimes), mine(said.services), mine(said.orphans))


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Of everything: what is drawn, days, and the cases below, each a server of its own."""
    place = tmp_path_factory.mktemp("services")
    collected, houses = activities.everything(place / "days", [case(case.__name__) for case in CASES])
    wanted = expected(collected.records, collected.given)
    assert {row["server"] for row in wanted.orphans} >= {"planned"}
    assert houses & {row["server"] for row in wanted.orphans}
    return Answers(said_of(place / "facts", collected), wanted)


def test_a_plain_program_says_the_same(answers: Answers) -> None:
    agree(answers.said, answers.wanted)
    assert {row["outages"] for row in answers.wanted.services} >= {0, 1}
    assert {row["lost"] for row in answers.wanted.uptimes} == {False, True}


@pytest.mark.long
def test_in_a_period(tmp_path: Path) -> None:
    collected = activities.drawn(sized(80))
    wanted = expected(collected.records, collected.given, MIDDLE)
    assert wanted.orphans
    assert {row["outages"] for row in wanted.services} >= {0, 1}
    agree(said_of(tmp_path / "facts", collected, MIDDLE), wanted)


Given = tuple[list[Record], list[Record]]
"""Records, and what was before them."""


def want(writer: Writer, session: str, service: str) -> None:
    about = {"protocol": "spp", "routing_id": f"r-{session}", "session": session, "service": service}
    writer.write(ev.SubscriptionAdded(**about))


def flapping(server: str) -> Given:
    writer = Writer(server)
    writer.register("a", "tv")
    writer.register("b", "tv")
    writer.unregister("a", "tv")
    writer.close("b")
    want(writer, "c", "tv")
    writer.seq += 2
    writer.register("a", "tv")
    writer.start()
    writer.close("a", reason="server-crashed")
    writer.start()
    return writer.records, []


def waiting_in_vain(server: str) -> Given:
    writer = Writer(server)
    want(writer, "before", "tv")
    writer.write(ev.SubscriptionRemoved(session="before", service="tv"))
    want(writer, "served", "tv")
    writer.register("x", "tv")
    want(writer, "served-too", "tv")
    writer.unregister("x", "tv")
    want(writer, "between", "tv")
    want(writer, "for-long", "tv")
    writer.write(ev.SubscriptionRenewed(session="between", service="tv"))
    writer.close("between")
    writer.register("x", "tv")
    want(writer, "other", "radio")
    writer.close("x")
    return writer.records, []


def closed(server: str) -> Given:
    writer = Writer(server)
    writer.close("a")
    writer.register("a", "tv")
    want(writer, "a", "radio")
    writer.start()
    return writer.records, []


def known_before(server: str) -> Given:
    before, after = Writer(server), Writer(server)
    before.register("a", "tv")
    after.seq = 5
    after.start()
    after.unregister("a", "tv")
    return after.records, before.records


def by_interest(server: str) -> Given:
    writer = Writer(server)
    writer.open("a")
    writer.write(ev.SubscriptionAdded(session="a"))
    return writer.records, []


def leaving(server: str) -> Given:
    writer = Writer(server)
    for reason in (None, "client-closed", "unreachable", "connection-lost", "lease-expired", "server-crashed"):
        for name, is_closed in (("unregistered", False), ("closed", True)):
            session, service = f"{name} {reason}", f"{name}: {reason}"
            writer.register(session, service)
            if is_closed:
                writer.close(session, reason=reason)
            else:
                writer.write(ev.ServiceUnregistered(session=session, service=service, reason=reason))
    for session in ("leaves first", "is lost"):
        writer.register(session, "two providers")
    writer.unregister("leaves first", "two providers")
    writer.close("is lost", reason="connection-lost")
    writer.register("stays", "at the end")
    writer.start()
    return writer.records, []


CASES = (flapping, waiting_in_vain, closed, known_before, by_interest, leaving)


def test_a_service_that_flaps(answers: Answers) -> None:
    (row,) = answers.of("flapping").services
    assert row == {
        "server": "flapping",
        "service": "tv",
        "providers": 2,
        "registrations": 3,
        "first_registered": START + STEP,
        "last_registered": START + 8 * STEP,
        "provided_seconds": 5 * 1.25,
        "observed_seconds": 10 * 1.25,
        "availability": 0.5,
        "provided": False,
        "outages": 2,
        "longest_outage_seconds": 4 * 1.25,
        "mtbf_seconds": 2.5 * 1.25,
        "mttr_seconds": 4 * 1.25,
        "subscribers": 1,
        "subscriptions": 1,
        "unprovided_seconds": 4 * 1.25,
        "unused": False,
    }


def test_a_provider_is_lost_or_leaves_by_itself(answers: Answers) -> None:
    lost = {row["service"]: row["lost"] for row in answers.of("leaving").uptimes}
    reasons = (None, "client-closed", "unreachable")
    left = {f"{how}: {reason}" for how in ("unregistered", "closed") for reason in reasons}
    assert {service for service in lost if not lost[service]} == {*left, "at the end"}


def test_who_waited_in_vain(answers: Answers) -> None:
    found = {row["session"]: row for row in answers.of("waiting_in_vain").orphans}
    assert {session: row["ended"] for session, row in found.items()} == {
        "before": True,
        "between": True,
        "other": False,
    }
    assert found["between"] == {
        "server": "waiting_in_vain",
        "session": "between",
        "service": "tv",
        "protocol": "spp",
        "routing_id": "r-between",
        "begin": START + 7 * STEP,
        "end": START + 10 * STEP,
        "ended": True,
        "waited_seconds": 3 * 1.25,
    }


def test_a_closed_session_wants_and_provides_nothing(answers: Answers) -> None:
    said = answers.of("closed")
    assert (said.spans, said.orphans) == ([], [])
    assert [(row["service"], row["registrations"], row["provided"]) for row in said.services] == [
        ("radio", 0, False),
        ("tv", 1, False),
    ]


def test_what_was_given_is_state_from_the_first_record_on(answers: Answers) -> None:
    (row,) = answers.of("known_before").services
    assert (row["registrations"], row["providers"], row["provided_seconds"]) == (0, 1, 1.25)


def test_objects_by_interest_are_no_service(answers: Answers) -> None:
    assert answers.of("by_interest") == Said([], [], [], [])
