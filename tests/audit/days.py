"""Days of a whole house as journals: what happens in a made-up world, written as a server writes it, boot after boot.

``bussrv.synth.journal`` writes the long ones; these are short, and have every shape that a journal can have.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bussrv.journal.batch import Rotation
from bussrv.journal.keys import PrivateKey
from bussrv.journal.manifest import MANIFEST_NAME, beginning
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.record import Stamped
from bussrv.journal.segment import compressed_path, is_compressed, list_segments, segment_name
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.synth.journal import BEGIN
from bussrv.synth.world import HOUR, MINUTE, SECOND, World
from tests.inspection.journals import KEY, NEXT_KEY, House, small_snapshots

STOPPED, CRASHED, TORN, RUNNING, STOPPED_AND_UNSEALED = "stopped", "crashed", "torn", "running", "unsealed"
"""How a journal ends: with ``server.stopped``, anywhere, in an unfinished record, anywhere with the server still there,
with ``server.stopped`` but not sealed as closed."""

BEGUN = b'{"v":4,"prev":"0'
"""What a crash leaves of a record."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a journal is like.

    :ivar events: about how many records it has.
    :ivar batch: how many are written at once.
    :ivar uptime: after how long the server crashes, as a median, in microseconds.
    :ivar segment: a segment is ended when it has so many records, whatever ``rotation`` says; ``None``: it is not.
    :ivar torn: whether crashes leave an unfinished record.
    :ivar next_key: the server crashes once more, and is back with this key, to which the one before handed over.
    :ivar part: about how large the parts of a snapshot are, in bytes.
    """

    events: int = 150
    batch: int = 5
    uptime: float = 20.0 * HOUR
    end: str = STOPPED
    torn: bool = False
    key: PrivateKey | None = KEY
    next_key: PrivateKey | None = None
    seals: bool = True
    policy: UpkeepPolicy = UpkeepPolicy(seal_interval=2.0)  # noqa: RUF009 - frozen
    rotation: Rotation = Rotation()  # noqa: RUF009 - frozen
    segment: int | None = None
    part: int = 1000


class _ThatIsEnough(Exception):
    """Nothing more is to be written."""


class _Days:
    def __init__(self, directory: Path, shape: Shape, server: str, seed: int) -> None:
        self._shape = shape
        self._world = World(server, seed, BEGIN, self._write, shape.uptime)
        self._house = House(
            directory,
            key=shape.key,
            seals=shape.seals,
            policy=shape.policy,
            rotation=shape.rotation,
            server=server,
            clock=self._world.clock,
        )
        self._boot = ""
        self._boots = 0
        self._waiting: list[Stamped] = []

    def live(self) -> None:
        shape = self._shape
        with suppress(_ThatIsEnough):
            # What ends in the middle of it is not to see the sessions end.
            self._world.run(shape.events if shape.end in (STOPPED, STOPPED_AND_UNSEALED) else 1000 * shape.events)
        self._commit()
        if shape.end == STOPPED:
            self._house.close()
        elif shape.end != RUNNING:
            self._house.crash(BEGUN if shape.end == TORN else b"")

    def _write(self, stamped: Sequence[Stamped]) -> None:
        if self._world.boot != self._boot:
            self._begin_boot()
        self._waiting += stamped
        if len(self._waiting) >= self._shape.batch:
            self._commit()
        ends_as_it_is = self._shape.end in (CRASHED, TORN, RUNNING)
        if ends_as_it_is and len(self._house.records) + len(self._waiting) >= self._shape.events:
            raise _ThatIsEnough

    def _begin_boot(self) -> None:
        if self._boots:
            self._commit()
            self._house.crash(BEGUN if self._shape.torn else b"")
        if self._boots == 1 and self._shape.next_key is not None:
            self._house.hand_over(self._shape.next_key)
        self._boots += 1
        self._boot = self._world.boot
        self._house.begin(self._boot)

    def _commit(self) -> None:
        if self._waiting:
            self._house.commit(self._waiting)
            self._waiting = []
            self._house.look()
            extent = self._house.writer.extent()
            if extent is not None and self._shape.segment is not None and extent.records >= self._shape.segment:
                self._house.writer.rotate()
                self._house.look()


def write_days(directory: Path, shape: Shape, server: str, seed: int = 0) -> Path:
    """Write a journal: the same for the same shape, server and seed."""
    directory.mkdir(parents=True)
    with small_snapshots(shape.part):
        _Days(directory, shape, server, seed).live()
    return directory


def clean_shape(seed: int) -> Shape:
    """Any shape; nothing is wrong with it."""
    choose = random.Random(seed)
    key = choose.choice((None, KEY, KEY))
    uptime = choose.choice((5 * SECOND, 15 * SECOND, MINUTE, 20.0 * HOUR))
    retention = choose.randrange(4)
    return Shape(
        events=choose.choice((1, 2, 5, 20, 50, 100)),
        batch=choose.randint(1, 12),
        uptime=uptime,
        end=choose.choice((STOPPED, STOPPED, CRASHED, TORN, RUNNING, RUNNING, STOPPED_AND_UNSEALED)),
        torn=choose.random() < 0.5,
        key=key,
        next_key=NEXT_KEY if key is KEY and uptime < MINUTE and choose.random() < 0.5 else None,
        seals=key is not None or choose.random() < 0.6,
        policy=UpkeepPolicy(
            seal_interval=choose.choice((0.5, 2.0, 60.0)),
            compress=choose.random() < 0.4,
            retain_age=15.0 if retention == 1 else None,
            retain_bytes=30_000 if retention == 2 else None,
        ),
        rotation=Rotation(bytes=choose.choice((4000, 12_000, 64 << 20)), age=choose.choice((6.0, 3600.0))),
        part=choose.choice((300, 1000, 1 << 18)),
    )


def litter(directory: Path, seed: int) -> None:
    """Leave what a server may leave, or be about to remove, in the directory of its journal."""
    choose = random.Random(seed)
    plain = [path for path in list_segments(directory)[:-1] if not is_compressed(path)]
    if plain and choose.random() < 0.3:
        path = choose.choice(plain)
        compressed_path(path).write_bytes(gzip.compress(path.read_bytes()))
    if choose.random() < 0.2:
        (directory / f"{segment_name(10**6)}.new").write_bytes(BEGUN)
    if choose.random() < 0.2:
        (directory / "rotate").touch()
    if choose.random() < 0.2 and (directory / MANIFEST_NAME).exists():
        found = read_manifest(directory / MANIFEST_NAME)
        with (directory / MANIFEST_NAME).open("ab") as file:
            file.write(beginning(found.next_number, found.last_hash)[:20])
