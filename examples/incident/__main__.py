"""``make demo-incident``: plays the incident, and asks the questions when an operator would."""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from bussrv.testing.server import RunningServer
from examples.demo.clients import say, tell
from examples.incident import troubles
from examples.incident.office import SERVERS, Office, Staff
from examples.incident.questions import CLOSED, DOOR, GUESSED, HEALTH, LINK, LOOK, OUTAGE, POLICY, WAITING, WHY, ask

PATIENCE = 60.0
TROUBLE_LASTS = 12.0
"""Seconds after which a lost link is an incident, and some more."""
OUTAGE_LASTS = 62.0
"""Seconds after which a service without a provider is an incident, and some more."""


def main(
    arguments: Sequence[str] | None = None, start: Callable[[Path, list[str]], RunningServer] = RunningServer
) -> int:
    """Play the incident. :returns: the exit status."""
    parser = argparse.ArgumentParser(prog="make demo-incident", description="An incident at three linked servers.")
    parser.add_argument("--quick", action="store_true", help="wait for nothing: some incidents are too short to be any")
    parser.add_argument("--stay", action="store_true", help="keep the servers running afterwards, until Ctrl-C")
    chosen = parser.parse_args(arguments)
    directory = Path(mkdtemp(prefix="bussrv-incident-"))
    os.environ["XDG_CONFIG_HOME"] = str(directory)
    os.chdir(directory)
    with ExitStack() as stack:
        office = Office(directory, stack, start)
        say("Three servers are linked in a line. Their dashboards:")
        for name in SERVERS:
            tell(name, office.dashboard(name))
        play(office, stack, chosen.quick)
        if chosen.stay:
            say(f"The servers go on until Ctrl-C. The commands work in {directory}, with XDG_CONFIG_HOME={directory}.")
            with suppress(KeyboardInterrupt):
                signal.pause()
    say(f"All of them have stopped. Their journals are in {directory}.")
    return 0


def play(office: Office, stack: ExitStack, is_quick: bool) -> None:
    """What happens, and what the operator asks meanwhile."""
    boiler = troubles.Boiler(office)
    staff = Staff(office, stack)
    until(office, "hall", "services", is_provided("camera"))
    until(office, "attic", "services", is_provided("heating"))
    say("An ordinary day, with clients of all wire formats. Then, at the same time:")

    tell("hall", "the boiler, which provides 'heating', loses its power")
    boiler.lose_power()
    began = time.monotonic()
    tell("hall", "a stranger tries secrets of ann")
    troubles.guess(office)
    tell("hall", "while the door restarts, a visitor takes its routing id, and provides 'door'")
    troubles.steal(staff)
    tell("attic", "a screen stops reading, and its camera does not stop sending")
    troubles.stall(staff)
    tell("attic", "the link to cellar is cut")
    office.cable.cut()
    cut = time.monotonic()
    until(office, "cellar", "links", lambda found: any(each["state"] == "down" for each in found))
    tell("hall", "somebody rings the bell")
    rang = troubles.ring(office)
    pause(cut, 0 if is_quick else TROUBLE_LASTS)
    for question in (LINK, HEALTH, GUESSED, DOOR, WAITING, CLOSED, WHY):
        ask(question, rang=rang)

    say("The link is mended:")
    office.cable.mend()
    until(office, "cellar", "links", lambda found: all(each["state"] == "up" for each in found))
    pause(began, 0 if is_quick else OUTAGE_LASTS)
    wanted = {"address", "logins", "identity"} | (set() if is_quick else {"outage"})
    until(office, "hall", "incidents", lambda found: wanted <= {each["kind"] for each in found})
    ask(LOOK)
    say("The boiler is back:")
    with troubles.Boiler(office):
        until(office, "hall", "services", is_provided("heating"))
        for question in (OUTAGE, POLICY):
            ask(question)


def is_provided(service: str) -> Callable[[list[dict[str, Any]]], bool]:
    """Whether a list of services has one with a provider."""
    return lambda found: any(each["service"] == service and each["providers"] for each in found)


def pause(since: float, seconds: float) -> None:
    """Wait until so many seconds have passed since a moment: an incident has to last."""
    time.sleep(max(0.0, since + seconds - time.monotonic()))


def until(office: Office, server: str, what: str, holds: Callable[[list[dict[str, Any]]], bool]) -> None:
    """Wait until a list of the admin interface of a server is as it should be.

    :raises TimeoutError: it is not in time.
    """
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with urllib.request.urlopen(f"{office.dashboard(server)}/api/v1/{what}", timeout=PATIENCE) as answer:
            found = json.load(answer)["items"]
        if holds(found):
            return
        time.sleep(0.05)
    raise TimeoutError(f"{what} of {server}: {found}")


if __name__ == "__main__":
    raise SystemExit(main())
