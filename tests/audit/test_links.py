from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from bussrv import events as ev
from bussrv.journal.record import Record
from tests.audit import troubles
from tests.audit.frames import Answers, Rows, in_order, tables
from tests.audit.journals import START, STEP, Writer
from tests.audit.oracles import links as oracle
from tests.size import sized

pytestmark = pytest.mark.dear

UP = ev.LinkUp(routing_id="attic")
DOWN = ev.LinkDown(routing_id="attic", reason="connection-lost")
SECONDS = STEP / 1_000_000
NEVER: tuple[int | None, int | None] = (None, None)


def written(*events: ev.Event | str, first: int = 1) -> list[Record]:
    """A record for each event, ``STEP`` apart; ``boot`` is a new boot."""
    writer = Writer(seq=first)
    for each in events:
        if isinstance(each, str):
            writer.start()
        else:
            writer.write(each)
    return writer.records


def before(session: str, role: str | None = "server", home: str | None = None) -> list[Record]:
    """What a snapshot before record 5 says of a session that was opened long ago."""
    about: dict[str, Any] = {"session": session, "routing_id": "attic", "protocol": "objects"}
    known = (ev.SessionOpened(**about, home=home), ev.SessionIdentified(**about, role=role))
    return [Record(4, START - 1000 * STEP, mono, "hall", "hall-1", each) for mono, each in enumerate(known)]


# How many steps the link stood and was observed, and what else there is to say of it.
CASES: dict[str, tuple[list[Record], list[Record], tuple[int | None, int | None], dict[str, Any]]] = {
    "up and down": (
        written("boot", UP, ev.ConfigReloaded(), DOWN, ev.ConfigReloaded(), ev.ConfigReloaded()),
        [],
        NEVER,
        {"ups": 1, "downs": 1, "up_seconds": 2 * SECONDS, "observed_seconds": 4 * SECONDS, "availability": 0.5}
        | {"mtbf_seconds": 2 * SECONDS, "last_reason": "connection-lost", "up": False},
    ),
    "still up": (
        written("boot", UP, DOWN, UP, ev.ConfigReloaded(), ev.ConfigReloaded()),
        [],
        NEVER,
        {
            "ups": 2,
            "downs": 1,
            "up_seconds": 3 * SECONDS,
            "mtbf_seconds": 3 * SECONDS,
            "availability": 0.75,
            "up": True,
        },
    ),
    "lost in a crash": (
        written("boot", UP, ev.ConfigReloaded(), "boot", ev.ConfigReloaded(), DOWN),
        [],
        NEVER,
        {"ups": 1, "downs": 1, "up_seconds": SECONDS, "observed_seconds": 4 * SECONDS, "up": False},
    ),
    "lost in a crash that nobody wrote of": (
        written("boot", UP, ev.ConfigReloaded(), "boot", ev.ConfigReloaded()),
        [],
        NEVER,
        {"downs": 0, "up_seconds": SECONDS, "up": False, "mtbf_seconds": None, "last_reason": None},
    ),
    "up when the server stopped": (
        written("boot", UP, ev.ServerStopped()),
        [],
        NEVER,
        {"up": False, "availability": 1.0},
    ),
    "nothing observed": (written("boot", UP), [], NEVER, {"up": True, "availability": None, "observed_seconds": 0.0}),
    "up before the first record": (
        written("boot", ev.ConfigReloaded(), DOWN, ev.ConfigReloaded(), first=5),
        before("hall-1.7"),
        NEVER,
        {"ups": 0, "downs": 1, "up_seconds": 2 * SECONDS, "observed_seconds": 3 * SECONDS},
    ),
    "lost in a crash before the first record": (
        written("boot", ev.ConfigReloaded(), DOWN, first=5),
        before("hall-0.7"),
        NEVER,
        {"ups": 0, "downs": 1, "up_seconds": 0.0, "observed_seconds": 2 * SECONDS},
    ),
    "a period": (
        written("boot", UP, DOWN, UP, ev.ConfigReloaded(), DOWN, ev.ConfigReloaded(), UP, DOWN),
        [],
        (START + STEP * 9 // 2, START + STEP * 13 // 2),
        {"ups": 0, "downs": 1, "up_seconds": 1.5 * SECONDS, "observed_seconds": 1.5 * SECONDS, "availability": 1.0},
    ),
    "a period in which it was never up": (
        written("boot", UP, DOWN, ev.ConfigReloaded(), ev.ConfigReloaded(), ev.ConfigReloaded()),
        [],
        (START + STEP * 4, None),
        {"ups": 0, "downs": 0, "up_seconds": 0.0, "observed_seconds": 2 * SECONDS, "availability": 0.0},
    ),
}


def of_server(name: str, records: list[Record]) -> list[Record]:
    return [replace(each, server=name) for each in records]


def about(rows_: Rows, server: str) -> Rows:
    return [row for row in rows_ if row["server"] == server]


NO_LINKS = {"a client": before("hall-1.7", role=None), "a session of another server": before("hall-1.7", home="barn")}
"""What is said before the first record of sessions that are no links."""

# Seen from its sixth step on, of these one link stands in the end, and the other does not.
STILL_UP = written("boot", *[ev.ConfigReloaded()] * 8, UP, ev.ConfigReloaded())
DOWN_AGAIN = written("boot", *[ev.ConfigReloaded()] * 8, UP, DOWN, ev.ConfigReloaded())

CLIPPED = (START + 6 * STEP, START + 20 * STEP)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Each case is a server of its own, among those that are drawn."""
    place = tmp_path_factory.mktemp("links")
    drawn, synthetic = [*troubles.draw(sized(100))], troubles.synthetic()
    drawn += [*of_server("planned to stay", STILL_UP), *of_server("planned to go", DOWN_AGAIN)]
    before_drawn = [each for number in range(0, 100, 3) for each in of_server(f"server{number}", before("x.1"))]
    before_drawn = [replace(each, seq=0) for each in before_drawn]
    no_links = [each for name in NO_LINKS for each in of_server(name, written("boot", first=5))]
    before_no_links = [each for name, given in NO_LINKS.items() for each in of_server(name, given)]
    asked: dict[Any, tuple[list[Record], list[Record]]] = {
        NEVER: ([*drawn, *synthetic, *no_links], [*before_drawn, *before_no_links]),
        CLIPPED: (drawn, before_drawn),
    }
    for name, (records, given, period, _) in CASES.items():
        some, others = asked.setdefault(period, ([], []))
        some += of_server(name, records)
        others += of_server(name, given)
    answers = Answers({}, {})
    for number, ((since, until), (records, given)) in enumerate(asked.items()):
        records = [each for each in records if until is None or each.time < until]
        servers = {each.server for each in records}
        given = [each for each in given if each.server in servers]
        found = tables(["links"], place / f"{number}", records, given, since, until)["links"]
        answers.found[since, until] = in_order(found)
        answers.expected[since, until] = in_order(oracle.links(records, given, since, until))
    return answers


@pytest.mark.parametrize("name", CASES)
def test_links(answers: Answers, name: str) -> None:
    _, _, period, expected = CASES[name]
    [row] = about(answers.found[period], name)
    assert {key: row[key] for key in expected} == expected
    assert row["neighbour"] == "attic"
    assert [row] == about(answers.expected[period], name)


@pytest.mark.parametrize("name", NO_LINKS)
def test_a_session_that_is_no_link_is_none(answers: Answers, name: str) -> None:
    assert about(answers.found[NEVER], name) == []


@pytest.mark.parametrize("period", [NEVER, CLIPPED], ids=["ever", "in a period"])
def test_the_oracle_finds_the_same(answers: Answers, period: tuple[int | None, int | None]) -> None:
    assert answers.found[period] == answers.expected[period]
    assert {row["up"] for row in answers.found[period]} == {True, False}
