from __future__ import annotations

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from bussrv import events as ev
from bussrv.journal.record import Record
from tests.audit import plans, troubles
from tests.audit.frames import Rows, in_order, tables
from tests.audit.journals import START, STEP, Writer, barn, day
from tests.audit.oracles import boots as oracle
from tests.size import sized

pytestmark = pytest.mark.dear


@dataclass
class Answers:
    """The boots and the servers of all these records, as the audit tells them."""

    records: list[Record]
    each_boot: Rows
    each_server: Rows

    def boots_of(self, *servers: str) -> Rows:
        return [row for row in self.each_boot if row["server"] in servers]


def set_back(server: str) -> list[Record]:
    """The clock was, while the server was down."""
    writer = Writer(server)
    writer.start()
    writer.stop()
    writer.start()
    writer.records[-1] = replace(writer.records[-1], time=START)
    return writer.records


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Many servers, made up and synthetic, and those of the cases below."""
    place = tmp_path_factory.mktemp("boots")
    drawn = [
        each for number, plan in enumerate(plans.draw(sized(60))) for each in plans.records(f"server{number}", plan)
    ]
    cases = [*day("hall").records, *barn().records, *set_back("loft")]
    # Another hall is among these.
    synthetic = [replace(each, server=f"far {each.server}") for each in troubles.synthetic()]
    records = [*drawn, *cases, *synthetic]
    given = Record(10, START - 1, 0, "barn", "barn-0", ev.SessionOpened(session="barn-0.1"))
    found = tables(("boots", "servers"), place / "facts", records, [given])
    return Answers(records, in_order(found["boots"]), in_order(found["servers"]))


def test_boots_and_servers(answers: Answers) -> None:
    assert answers.boots_of("barn", "hall") == [
        {
            "server": "barn",
            "boot": "barn-1",
            "records": 11,
            "first_seq": 11,
            "last_seq": 21,
            "first_moment": START + STEP * 11,
            "last_moment": START + STEP * 21,
            "started": True,
            "stopped": False,
            "ended": True,
            "crashed": True,
            "down_seconds": None,
            "version": "0.1.0",
        },
        {
            "server": "barn",
            "boot": "barn-2",
            "records": 7,
            "first_seq": 22,
            "last_seq": 28,
            "first_moment": START + STEP * 22,
            "last_moment": START + STEP * 28,
            "started": True,
            "stopped": False,
            "ended": False,
            "crashed": False,
            "down_seconds": STEP / 1_000_000,
            "version": "0.1.0",
        },
        {
            "server": "hall",
            "boot": "hall-1",
            "records": 9,
            "first_seq": 1,
            "last_seq": 9,
            "first_moment": START + STEP,
            "last_moment": START + STEP * 9,
            "started": True,
            "stopped": True,
            "ended": True,
            "crashed": False,
            "down_seconds": None,
            "version": "0.1.0",
        },
    ]
    told = {row["server"]: (row["records"], row["boots"], row["crashes"]) for row in answers.each_server}
    assert (told["barn"], told["hall"]) == ((18, 2, 1), (9, 1, 0))


def test_a_clock_that_was_set_back_makes_no_time_negative(answers: Answers) -> None:
    assert {row["boot"]: row["down_seconds"] for row in answers.boots_of("loft")} == {"loft-1": None, "loft-2": 0.0}


def test_the_oracle_finds_the_same(answers: Answers) -> None:
    assert answers.each_boot == in_order(oracle.boots(answers.records))
    assert answers.each_server == in_order(oracle.servers(answers.records))
    assert any(row["crashed"] for row in answers.each_boot)
    assert any(row["stopped"] for row in answers.each_boot)
