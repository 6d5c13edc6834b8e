"""The soak itself: what happens when, and what has to hold at the end."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from bussrv.client.objects import ObjectsClient
from tests.certificates import Authority
from tests.end_to_end.cables import Bench, Cable
from tests.soak import checks
from tests.soak.checks import Check
from tests.soak.clients import KINDS, PATIENCE, Client, Observer, Stalled, meet
from tests.soak.meter import Meter, Rise, await_descriptors, descriptors
from tests.soak.stations import Station, secret

RELOAD_EVERY = 5.0
WATCHED = 0.5
"""The share of the time, at the end, in which memory is watched. Whatever restarts a server happens before."""

KILLS = ((0.08, "hall"), (0.16, "cellar"), (0.24, "hall"), (0.32, "cellar"))
"""The shares of the time at which a server is killed."""

MOST_RISE = 5 << 20
"""Bytes that resident memory may rise while it is watched."""

JUDGED_FROM = 600.0
"""Seconds that a soak takes at least for memory to be judged. Caches and the pools of the allocator fill up before."""

OBSERVER = {"user": "observer", "secret": secret("observer")}

TOOL = (sys.executable, "-c", "from bussrv.cli.main import main; raise SystemExit(main())")


class Step(NamedTuple):
    """Something that happens so many seconds after the start, to a server or to the link (``""``)."""

    at: float
    what: str
    name: str


def plan(seconds: float, random: Random) -> list[Step]:
    """Everything that happens, in order."""
    steps = [Step(share * seconds, "kill", name) for share, name in KILLS]
    at = RELOAD_EVERY
    while at < seconds:
        steps += [Step(at, "reload", "hall"), Step(at, "reload", "cellar")]
        at += RELOAD_EVERY
    at = random.uniform(5, 20)
    while at < seconds:
        steps.append(Step(at, "cut", ""))
        at += random.uniform(10, 30)
    return sorted(steps)


class Soak:
    """Two linked servers and all their clients.

    :param say: is told what happens.
    :ivar did: what was done, and how often.
    """

    def __init__(self, directory: Path, seconds: float, seed: int, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._seconds = seconds
        self._random = Random(seed)
        self._seed = seed
        self._say = say
        self._stopping = threading.Event()
        self._rises: dict[str, Rise] = {}
        self._idle: dict[str, int] = {}
        self._left: dict[str, int] = {}
        self._statuses: list[int] = []
        self._counters: dict[str, int] = {}
        self.kills = 0
        self.cuts = 0

    def run(self) -> list[Check]:
        """Do everything. :returns: what holds, and what does not."""
        with ExitStack() as stack:
            self._cable = Cable(stack.enter_context(Bench()))
            stack.callback(self._cable.close)
            authority = Authority(self._directory / "ca")
            token = self._directory / "link-token"
            token.touch(0o600)
            token.write_text(secret("linked") + "\n")
            link = (
                f"tls:127.0.0.1:{self._cable.port}:trustRoots={authority.file}:serverName=localhost:tokenFile={token}"
            )
            hall, cellar = (
                Station("hall", self._directory, authority, link),
                Station("cellar", self._directory, authority),
            )
            self._stations = {each.name: each for each in (hall, cellar)}
            for each in (cellar, hall):
                stack.callback(each.end)
                each.start()
            self._plug()
            self._idle = {each.name: descriptors(each.server.process.pid) for each in (hall, cellar)}
            self._say("two servers are linked; clients come")
            clients = self._start_clients()
            stack.callback(self._stopping.set)
            self._follow_plan()
            self._say("clients leave")
            self._stopping.set()
            for client in clients:
                client.join(PATIENCE)
            self._look_at_the_end()
            self._stop()
            return [*self._of_clients(clients), *self._of_processes(), *self._of_journals(clients)]

    def _start_clients(self) -> list[Client]:
        clients = [
            kind(station, number, self._seed, self._stopping)
            for station in self._stations.values()
            for kind, most in KINDS.items()
            for number in range(most)
        ]
        for each in clients:
            each.start()
        return clients

    # What happens.

    def _follow_plan(self) -> None:
        steps, begun = plan(self._seconds, self._random), time.monotonic()
        watched = self._seconds * (1 - WATCHED)
        with ExitStack() as stack:
            meters: dict[str, Meter] = {}
            for step in [*steps, Step(self._seconds, "end", "")]:
                if step.at >= watched and not meters:
                    self._wait_until(begun + watched)
                    self._say("memory is watched from now on")
                    meters = {
                        name: stack.enter_context(Meter(each.server.process.pid))
                        for name, each in self._stations.items()
                    }
                self._wait_until(begun + step.at)
                self._do(step)
        self._rises = {name: each.rise() for name, each in meters.items()}

    def _wait_until(self, moment: float) -> None:
        self._stopping.wait(max(0.0, moment - time.monotonic()))

    def _do(self, step: Step) -> None:
        if step.what == "reload":
            self._stations[step.name].reload(self._random)
        elif step.what == "cut":
            self._cut()
        elif step.what == "kill":
            self._kill(self._stations[step.name])

    def _cut(self) -> None:
        self._unplug()
        self._plug()
        self.cuts += 1
        with ExitStack() as stack:
            first, second = (stack.enter_context(self._member(each)) for each in self._stations.values())
            for member, name in ((first, "first"), (second, "second")):
                member.subscribe(**OBSERVER, routing_id=f"{name}.{self.cuts}", receive_mode="events_only")
            meet(first, second)

    def _member(self, station: Station) -> ObjectsClient:
        return ObjectsClient(port=station.server.port("objects"), timeout=PATIENCE, tls=station.tls)

    def _plug(self) -> None:
        self._cable.plug(self._stations["cellar"].server.addresses["objects"])
        for each in self._stations.values():
            each.wait_for_link("up")

    def _unplug(self) -> None:
        self._cable.unplug()
        for each in self._stations.values():
            each.wait_for_link("down")
            each.downs += 1

    def _kill(self, station: Station) -> None:
        (other,) = (each for each in self._stations.values() if each is not station)
        station.kill()
        self.kills += 1
        other.wait_for_link("down")
        self._cable.unplug()
        for each in (station, other):
            each.downs += 1
        station.start()
        self._plug()
        self._say(f"{station.name} was killed, and is back")

    # The end.

    def _look_at_the_end(self) -> None:
        for name, each in self._stations.items():
            process = each.server.process.pid
            self._left[name] = await_descriptors(process, self._idle[name], PATIENCE)
            with self._member(each) as client:
                client.subscribe(**OBSERVER, receive_mode="events_only")
                said = msgspec.json.decode(client.request("bus/statistics").payload)
            for counter, count in said["counters"].items():
                self._counters[counter] = self._counters.get(counter, 0) + count

    def _stop(self) -> None:
        """Those sessions that outlive a server are closed by one that has no Inbus."""
        self._statuses = [each.stop(signal.SIGTERM) for each in self._stations.values()]
        for each in self._stations.values():
            each.downs += 1
            each.start("--inbus", "off", "--link=tcp:127.0.0.1:1")
            self._statuses.append(each.stop(signal.SIGTERM))

    # What has to hold.

    def _of_clients(self, clients: Iterable[Client]) -> list[Check]:
        failed = [f"{each.name}: {each.failure!r}" for each in clients if each.failure is not None]
        failed += [f"{each.name} does not end" for each in clients if each.is_alive()]
        failed += [fault for each in self._stations.values() for fault in each.faults]
        waits = sorted(wait for each in clients if isinstance(each, Observer) for wait in each.waits)
        lives = sum(each.lives for each in clients)
        found = [
            Check("no client fails, or loses its connection to a server that lives", not failed, f"{lives} connections")
        ]
        found += [Check("  this one did", False, each) for each in failed[:20]]
        if waits:
            most, middle, high = (1000 * waits[int(share * (len(waits) - 1))] for share in (1, 0.5, 0.99))
            figures = (
                f"{len(waits)} answers after {middle:.1f} ms (median), {high:.1f} ms (p99), {most:.1f} ms (longest)"
            )
            found.append(Check("observers are answered", True, figures))
        return found

    def _of_processes(self) -> list[Check]:
        found = []
        is_judged = self._seconds >= JUDGED_FROM
        for name, rise in self._rises.items():
            figures = f"{rise.first / 1e6:.1f} MB, then {rise.last / 1e6:.1f} MB"
            claim = f"{name}: memory rises under 5 MiB in the last {self._seconds * WATCHED:.0f} s"
            if not is_judged:
                claim += f" (judged from {JUDGED_FROM:.0f} s on)"
            found.append(Check(claim, rise.bytes < MOST_RISE or not is_judged, figures))
        for name, left in self._left.items():
            figures = f"{self._idle[name]} before, {left} after"
            found.append(Check(f"{name}: descriptors are back where they began", left == self._idle[name], figures))
        found.append(Check("the servers stop in order", set(self._statuses) == {0}, f"statuses {self._statuses}"))
        errors = self._counters.get("internal-error", 0)
        shown = ", ".join(f"{name} {count}" for name, count in sorted(self._counters.items()))
        found.append(Check("no internal error is counted", not errors, shown))
        return found

    def _of_journals(self, clients: Iterable[Client]) -> list[Check]:
        found = []
        for name, each in self._stations.items():
            events = checks.events_of(each.journal)
            cuts = sum(client.cuts for client in clients if isinstance(client, Stalled) and client.station is each)
            found += [
                checks.closed_once(name, events),
                checks.nothing_lost(name, events, each.told),
                checks.reloaded_as_expected(name, events, each.reloads),
                checks.links_held(name, events, each.downs),
                checks.recovered(name, events, self.kills // 2),
                checks.slow_ones_cut(name, events, cuts),
                checks.users_known(name, events),
                checks.secrets_kept(name, each.journal, each.lines),
                checks.served_without_errors(name, events, each.lines),
                self._tool(
                    f"{name}: bussrv journal verify",
                    "journal",
                    "verify",
                    each.journal,
                    "--public-key",
                    f"{each.key}.pub",
                ),
            ]
        journals = [each.journal for each in self._stations.values()]
        found.append(self._tool("bussrv audit", "audit", *journals, "--out", self._directory / "audit"))
        return found

    def _tool(self, claim: str, *arguments: str | Path) -> Check:
        done = subprocess.run([*TOOL, *map(str, arguments)], capture_output=True, text=True, check=False)
        lines = (done.stdout if done.returncode < 2 else done.stderr).strip().splitlines()
        return Check(f"{claim} finds nothing", done.returncode == 0, " | ".join(lines[-4:]))
