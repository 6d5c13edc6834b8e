"""Attacks and other trouble in the days of a world: which of them, and when.

Each attacker has an address that nobody else has. So the records that it causes can be told from all others, and are
counted while they are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from random import Random

from bussrv.journal.record import Stamped
from bussrv.synth.attacker import Attack, Attacker, Place
from bussrv.synth.scripts import KINDS

PER_ATTACK = 100_000
"""Among how many events there is one attack of each kind. There is at least one."""


class Attacks:
    """Makes trouble in a world.

    :param kinds: those of :data:`bussrv.synth.scripts.KINDS` that there are to be.
    :param events: about how many events there will be.
    :ivar made: those that began, in that order.
    """

    def __init__(self, world: Place, kinds: Sequence[str], events: int, seed: int) -> None:
        self.made: list[Attack] = []
        self._world = world
        self._random = Random(f"attacks {world.server} {seed}")
        each = max(1, events // PER_ATTACK)
        # Some have to have a past that they differ from, and all of them time to end.
        places = [(self._random.randint(events // 10, events * 8 // 10), kind) for kind in kinds for _ in range(each)]
        self._due = sorted(places, reverse=True)
        self._by_address: dict[str, Attack] = {}
        self._running: list[tuple[Iterator[float], Attack]] = []
        self._stepping: Iterator[float] | None = None

    def saw(self, stamped: Sequence[Stamped]) -> None:
        """Take note of what is written."""
        for each in stamped:
            peer = each.event.peer
            attack = self._by_address.get(peer.partition(":")[0]) if peer else None
            if attack is not None:
                attack.saw(each)

    def look(self) -> None:
        """Begin what is due."""
        while self._due and self._due[-1][0] <= self._world.written:
            kind = self._due.pop()[1]
            number = len(self.made)
            place = f"{number // 250}.{number % 250 + 1}"
            # Networks that are set aside for tests.
            attack = Attack(kind=kind, address=f"198.18.{place}")
            self.made.append(attack)
            self._by_address[attack.address] = attack
            script = KINDS[kind](Attacker(self._world, attack, self._random, number, f"198.19.{place}"))
            self._running.append((script, attack))
            self._go_on(script, attack)

    def resume(self) -> None:
        """The server is back after a crash; its attackers are still there."""
        for script, attack in self._running:
            if script is not self._stepping:
                self._world.after(self._random.uniform(0, 1_000_000), partial(self._go_on, script, attack))

    def _go_on(self, script: Iterator[float], attack: Attack) -> None:
        self._stepping = script
        pause = next(script, None)
        self._stepping = None
        if pause is None:
            self._running.remove((script, attack))
            attack.complete = True
        else:
            self._world.after(pause, partial(self._go_on, script, attack))
