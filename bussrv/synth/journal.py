"""A journal of a :class:`~bussrv.synth.world.World`, written with the code that a server writes its own with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from bussrv.journal.batch import BatchEntry, BatchWriter, Rotation, make_entry
from bussrv.journal.files import Files
from bussrv.journal.keys import PrivateKey
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.record import Stamped
from bussrv.journal.recovery import recover
from bussrv.journal.sealing import Sealer
from bussrv.journal.upkeep import Upkeep, UpkeepPolicy
from bussrv.registry.state.fold import RegistryFold
from bussrv.synth.attacker import Attack
from bussrv.synth.faults import Distortion, InjectedFault
from bussrv.synth.world import UPTIME, World
from bussrv.turns.clock import Clock

BEGIN = 1_793_491_200_000_000
"""When the first boot is: 2026-11-01, UTC microseconds."""

EACH = 3
"""How often each kind of fault is put in."""

_BATCH = 500


class _Unsynced(Files):
    """Files that are not made durable: who made up a journal can make it up again."""

    def sync(self, descriptor: int) -> None:
        pass

    def sync_directory(self, directory: Path) -> None:
        pass


def write_journal(
    directory: Path,
    *,
    events: int,
    seed: int = 0,
    server: str = "hall",
    key: PrivateKey | None = None,
    compress: bool = False,
    rotation: Rotation | None = None,
    faults: Sequence[str] = (),
    uptime: float = UPTIME,
    attacks: Sequence[str] = (),
) -> list[InjectedFault | Attack]:
    """Write a journal.

    :param directory: is made; must not hold a journal.
    :param events: how many records there are to be, or a few more.
    :param uptime: after how long the server crashes, as a median, in microseconds.
    :param faults: kinds of :data:`bussrv.synth.faults.KINDS` to put in, ``EACH`` times each.
    :param attacks: kinds of :data:`bussrv.synth.scripts.KINDS`, each once among
        :data:`bussrv.synth.attacks.PER_ATTACK` events and at least once.
    :returns: what was put in: the faults, then the attacks. What these say was so before faults were put in.
    :raises JournalError: if there is a journal already.
    :raises OSError: if it cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    keeper = JournalKeeper(directory, key, UpkeepPolicy(compress=compress), rotation)
    distortion = Distortion(faults, EACH, events, seed, keeper.write)
    keeper.world = world = World(server, seed, BEGIN, distortion.write, uptime, attacks)
    made = world.run(events)
    keeper.close()
    return [*distortion.faults, *made]


class Told(Protocol):
    """Whose journal it is, as of what is written next."""

    @property
    def server(self) -> str:
        """The routing id of the server."""

    @property
    def boot(self) -> str:
        """The id of the boot."""

    @property
    def clock(self) -> Clock:
        """The time."""


class JournalKeeper:
    """Writes what it is told, each boot as a server of its own would.

    :ivar world: whose journal it is; to be set before anything is written.
    """

    world: Told

    def __init__(
        self,
        directory: Path,
        key: PrivateKey | None = None,
        policy: UpkeepPolicy | None = None,
        rotation: Rotation | None = None,
    ) -> None:
        self._directory = directory
        self._key = key
        self._policy = policy or UpkeepPolicy()
        self._rotation = rotation or Rotation()
        self._files = _Unsynced()
        self._entries: list[BatchEntry] = []
        self._boot = ""
        self._writer: BatchWriter | None = None
        self._upkeep: Upkeep | None = None

    def write(self, stamped: Sequence[Stamped]) -> None:
        """Write events that belong together."""
        if self.world.boot != self._boot:
            self._commit()
            self._begin_boot()
        self._entries.append(make_entry(stamped))
        if len(self._entries) >= _BATCH:
            self._commit()

    def close(self) -> None:
        """Write and seal the rest."""
        self._commit()
        if self._writer is not None and self._upkeep is not None:
            self._writer.close()
            self._upkeep.do_due_work(self._writer, at_end=True)

    def _commit(self) -> None:
        if self._writer is None or self._upkeep is None:
            return
        self._writer.commit(self._entries)
        self._entries = []
        self._upkeep.do_due_work(self._writer)

    def _begin_boot(self) -> None:
        """After a crash, go by what is on the disk."""
        self._boot = self.world.boot
        fold = RegistryFold()
        recovered = recover(self._directory, fold, self._files)
        manifest = read_manifest(self._directory / MANIFEST_NAME)
        clock, server = self.world.clock, self.world.server
        sealer = Sealer(self._directory, server, manifest=manifest, key=self._key, clock=clock, files=self._files)
        self._upkeep = Upkeep(
            self._directory,
            sealer,
            manifest=manifest,
            unsealed=recovered.unsealed,
            policy=self._policy,
            clock=clock,
            later=lambda action: action(),
            files=self._files,
        )
        self._writer = BatchWriter(
            self._directory,
            server,
            self._boot,
            recovered=recovered,
            fold=fold,
            sync="off",
            clock=clock,
            rotation=self._rotation,
            last_seal=lambda: sealer.last_hash,
            files=self._files,
        )
