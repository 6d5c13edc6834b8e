"""A minute of the soak, and whether its checks would notice anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from bussrv import events as ev
from tests.end_to_end.doomed import Told
from tests.soak import checks
from tests.soak.checks import Check
from tests.soak.run import KILLS, RELOAD_EVERY, WATCHED, plan
from tests.tables import check_each

ROOT = Path(__file__).parents[2]
SECONDS = 60

OPENED = ev.SessionOpened(session="1", protocol="spp", peer="10.0.0.1:7")
CLOSED = ev.SessionClosed(session="1", duration=1)
KNOWN = ev.SessionIdentified(session="1", routing_id="ann")
WANTED = ev.SubscriptionAdded(session="1", protocol="spp", peer="10.0.0.1:7", service="tv")
FAILED = ev.SessionClosed(session="1", duration=1, reason="internal-error")
OTHER = ev.SessionClosed(session="2", duration=1)
SLOW = ev.SessionClosed(session="1", duration=1, reason="slow-consumer", routing_id="hall.stalled0.1")
ANN, TV = Told(ev.SessionIdentified, "ann"), Told(ev.SubscriptionAdded, "10.0.0.1:7 tv")
USED, REFUSED = ev.ConfigReloaded(), ev.ConfigReloadFailed(message="")

ROWS: dict[str, tuple[Check, bool]] = {
    "closed once": (checks.closed_once("a", [OPENED, CLOSED]), True),
    "closed never": (checks.closed_once("a", [OPENED]), False),
    "closed twice": (checks.closed_once("a", [OPENED, CLOSED, CLOSED]), False),
    "closed, but never opened": (checks.closed_once("a", [OPENED, CLOSED, OTHER]), False),
    "no sessions at all": (checks.closed_once("a", []), False),
    "nothing lost": (checks.nothing_lost("a", [KNOWN, WANTED], [ANN, TV]), True),
    "a subscription lost": (checks.nothing_lost("a", [KNOWN], [ANN, TV]), False),
    "a session lost": (checks.nothing_lost("a", [WANTED], [ANN, TV]), False),
    "nobody told of anything": (checks.nothing_lost("a", [KNOWN, WANTED], []), False),
    "reloads as expected": (checks.reloaded_as_expected("a", [USED, REFUSED], [True, False]), True),
    "a wrong file used": (checks.reloaded_as_expected("a", [USED, USED], [True, False]), False),
    "a reload without a record": (checks.reloaded_as_expected("a", [USED], [True, False]), False),
    "a link that broke by itself": (checks.links_held("a", [ev.LinkDown()], 0), False),
    "a kill that was not noticed": (checks.recovered("a", [], 1), False),
    "an internal error": (checks.served_without_errors("a", [FAILED], []), False),
    "a traceback": (checks.served_without_errors("a", [], ["Traceback (most recent call last)"]), False),
    "a slow one cut": (checks.slow_ones_cut("a", [SLOW], 1), True),
    "no slow one cut": (checks.slow_ones_cut("a", [], 0), False),
    "another one cut": (
        checks.slow_ones_cut("a", [SLOW, ev.SessionClosed(duration=1, reason="slow-consumer", routing_id="ann")], 1),
        False,
    ),
}  # fmt: skip


def test_each_check_notices() -> None:
    def look(row: tuple[Check, bool]) -> None:
        check, holds = row
        assert check.holds is holds, str(check)

    check_each(ROWS.items(), look)


def test_the_seed_makes_the_plan_and_no_restart_disturbs_memory() -> None:
    steps = plan(600, Random(1))
    assert steps == plan(600, Random(1)) != plan(600, Random(2))
    assert [each.name for each in steps if each.what == "kill"] == [name for _, name in KILLS]
    assert max(each.at for each in steps if each.what == "kill") < 600 * (1 - WATCHED)
    assert sum(each.what == "reload" for each in steps) == 2 * (600 // RELOAD_EVERY - 1)
    assert sum(each.what == "cut" for each in steps) > 10


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_a_minute() -> None:
    command = [sys.executable, "-m", "tests.soak", "--seconds", str(SECONDS)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
