"""Journals as a server leaves them: written by the real writer and looked after as a server does, without a thread."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from bussrv import events as ev
from bussrv.events import Event
from bussrv.journal.batch import BatchWriter, Rotation, make_entry
from bussrv.journal.files import Files
from bussrv.journal.keys import PrivateKey
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import ManifestFile, read_manifest
from bussrv.journal.record import Record, Stamped
from bussrv.journal.recovery import recover
from bussrv.journal.sealing import MARKER, Sealer
from bussrv.journal.segment import list_segments
from bussrv.journal.upkeep import Upkeep, UpkeepPolicy
from bussrv.registry.state.fold import RegistryFold
from bussrv.registry.state.snapshot import snapshot
from bussrv.registry.state.state import RegistryState
from bussrv.turns.clock import Clock
from tests.journal.support import FakeClock

KEY = PrivateKey(b"1" * 32)
NEXT_KEY = PrivateKey(b"2" * 32)
STRANGER = PrivateKey(b"3" * 32)


class Hasty(Files):
    """A disk that nobody pulls the plug of."""

    def sync(self, descriptor: int) -> None:
        """It is there all the same."""

    def sync_directory(self, directory: Path) -> None:
        """So is this."""


HASTY = Hasty()

PROTOCOLS = ("objects", "business", "inbus", "spp")


@contextmanager
def small_snapshots(size: int) -> Iterator[None]:
    """Let snapshots have several parts, of about ``size`` bytes."""
    with patch("bussrv.registry.state.fold.STATE_BYTES", size):
        yield


class Traffic:
    """Registry events as they happen in a house, one after the other."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._open: list[str] = []
        self._count = 0

    def next(self) -> Event:
        choose = self.random
        if not self._open or (choose.random() < 0.3 and len(self._open) < 12):
            return self._opened()
        session = choose.choice(self._open)
        about = {"session": session, "protocol": choose.choice(PROTOCOLS)}
        service = choose.choice(("tv", "Türklingel", "doorbell", "a b"))
        kind = choose.randrange(7)
        if kind == 0:
            self._open.remove(session)
            return ev.SessionClosed(duration=choose.randrange(10**9), **about)
        if kind == 1:
            return ev.SessionIdentified(
                routing_id=f"id-{session}", routing_ids=("shared",), actor=choose.choice(("ann", "bob")), **about
            )
        if kind == 2:
            return ev.ServiceRegistered(service=service, **about)
        if kind == 3:
            return ev.ServiceUnregistered(service=service, **about)
        if kind == 4:
            return ev.SubscriptionAdded(service=service, options={"version": choose.randrange(3)}, **about)
        if kind == 5:
            return ev.SubscriptionRemoved(service=service, **about)
        return ev.AuthFailed(actor='a "quoted" \\ name', reason="bad-password", **about)

    def _opened(self) -> Event:
        self._count += 1
        session = f"s{self._count}"
        self._open.append(session)
        return ev.SessionOpened(
            session=session, routing_id=f"r{self._count}", protocol="objects", peer=f"10.0.0.{self._count % 250}:7001"
        )


class House:
    """A server that writes a journal, boot after boot.

    :param seals: ``False``: it has no manifest, only the chain.
    :param clock: the clock; by default one that moves only with :meth:`write`.
    :ivar records: everything that was written.
    :ivar states: with ``remembers``: the registry before the first record, and after each.
    """

    def __init__(
        self,
        directory: Path,
        *,
        key: PrivateKey | None = None,
        seals: bool = True,
        policy: UpkeepPolicy = UpkeepPolicy(),  # noqa: B008 - frozen
        rotation: Rotation = Rotation(),  # noqa: B008 - frozen
        seed: int = 0,
        server: str = "hall",
        remembers: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.directory = directory
        self.key = key
        self.clock = clock or FakeClock()
        self.traffic = Traffic(seed)
        self.records: list[Record] = []
        self.states = [snapshot(0, RegistryState())]
        self._followed = RegistryState()
        self.writer: BatchWriter | None = None
        self._upkeep: Upkeep | None = None
        self._seals = seals
        self._policy = policy
        self._rotation = rotation
        self._server = server
        self._remembers = remembers
        self._boots = 0
        directory.mkdir(exist_ok=True)

    def boot(self) -> None:
        self._boots += 1
        self.begin(f"{self._server}-{self._boots}")
        self.write(ev.ServerStarted(version="1"))

    def begin(self, boot: str) -> None:
        """A boot of that id, of which nothing is written yet."""
        self.fold = RegistryFold()
        recovered = recover(self.directory, self.fold, HASTY)
        options = {}
        if self._seals:
            manifest = read_manifest(self.directory / MANIFEST_NAME)
            sealer = Sealer(
                self.directory, self._server, manifest=manifest, key=self.key, clock=self.clock, files=HASTY
            )
            self._upkeep = Upkeep(
                self.directory,
                sealer,
                manifest=manifest,
                unsealed=recovered.unsealed,
                policy=self._policy,
                clock=self.clock,
                later=lambda function: function(),
                files=HASTY,
            )
            options["last_seal"] = lambda: sealer.last_hash
        self.writer = BatchWriter(
            self.directory,
            self._server,
            boot,
            recovered=recovered,
            fold=self.fold,
            sync="off",
            clock=self.clock,
            rotation=self._rotation,
            files=HASTY,
            **options,
        )
        if self._upkeep is not None:
            self._upkeep.begin()

    def write(self, *events: Event) -> None:
        """One batch, and a look at what is due."""
        self.write_unseen(*events)
        self.look()

    def write_unseen(self, *events: Event) -> None:
        """One batch; then the server is killed, or it takes its time."""
        stamped = []
        for event in events:
            self.clock.advance(0.25)
            stamped.append(Stamped(self.clock.utc(), self.clock.mono(), event))
        self.commit(stamped)

    def commit(self, stamped: Sequence[Stamped]) -> None:
        """One batch of what has happened."""
        entries = self.writer.commit([make_entry([each]) for each in stamped])
        written = [record for entry in entries for record in entry.records]
        self.records += written
        if self._remembers:
            self._remember(written)

    def _remember(self, written: list[Record]) -> None:
        for record in written:
            self._followed.apply(record.event, record.time)
            self.states.append(snapshot(record.seq, self._followed))

    def look(self) -> None:
        if self._upkeep is not None:
            self._upkeep.do_due_work(self.writer)

    def go_on(self, count: int, *, batch: int = 3) -> None:
        """Write ``count`` events of the house."""
        while count > 0:
            self.write(*(self.traffic.next() for _ in range(min(count, batch))))
            count -= batch

    def live_three_boots(self, unsealed: int = 0) -> None:
        """Write four segments or five, over three boots; several snapshots have several parts.

        :param unsealed: so many records follow the last seal, and the last boot goes on; 0: it stops.
        """
        with small_snapshots(300):
            for boot in range(3):
                self.boot()
                self.go_on(8)
                if boot == 1:
                    self.rotate()
                    self.go_on(5)
                if boot < 2:
                    self.stop()
            if unsealed:
                self.clock.advance(5)
                self.look()
                self.write_unseen(*(self.traffic.next() for _ in range(unsealed)))
            else:
                self.stop()

    def rotate(self) -> None:
        """As when somebody asks for it."""
        (self.directory / MARKER).touch()
        self.clock.advance(2)
        if self._upkeep is None:
            self.writer.rotate()
            (self.directory / MARKER).unlink()
        self.look()

    def stop(self) -> None:
        self.write(ev.ServerStopped())
        self.close()

    def close(self) -> None:
        """Nothing more is written."""
        self.writer.close()
        if self._upkeep is not None:
            self._upkeep.do_due_work(self.writer, at_end=True)

    def crash(self, torn: bytes = b"") -> None:
        """Stop without a word; ``torn`` is what it had begun to write."""
        segment = self.writer._segment
        if segment is not None:
            segment.close()
            with segment.path.open("ab") as file:
                file.write(torn)
        self.writer = self._upkeep = None

    def hand_over(self, key: PrivateKey) -> None:
        """As ``bussrv journal keygen --replaces`` does, between two boots."""
        path = self.directory / MANIFEST_NAME
        file = ManifestFile(path, read_manifest(path), self.key, files=HASTY)
        file.introduce(key.public, self.key, time=self.clock.utc(), server=self._server)
        self.key = key

    @property
    def path(self) -> Path:
        """The last segment."""
        return list_segments(self.directory)[-1]


def clean_journal(directory: Path, seed: int) -> House:
    """A journal in which nothing is wrong, of a kind that ``seed`` decides; its server may not have stopped."""
    choose = random.Random(seed)
    seals = choose.random() < 0.8
    house = House(
        directory,
        key=choose.choice((None, KEY)) if seals else None,
        seals=seals,
        policy=UpkeepPolicy(
            seal_interval=choose.choice((1.0, 5.0, 60.0)),
            compress=choose.random() < 0.4,
            retain_age=choose.choice((None, None, 20.0)),
            retain_bytes=choose.choice((None, None, 15_000)),
        ),
        rotation=Rotation(bytes=choose.choice((1500, 4000, 64 << 20)), age=choose.choice((3.0, 3600.0))),
        seed=seed,
    )
    with small_snapshots(choose.choice((200, 600, 1 << 18))):
        boots = choose.randint(1, 4)
        for number in range(1, boots + 1):
            house.boot()
            house.go_on(choose.randrange(25), batch=choose.randint(1, 5))
            if choose.random() < 0.3:
                house.rotate()
                house.go_on(choose.randrange(6))
            is_last = number == boots
            end = choose.random()
            if end < 0.4:
                house.stop()
            elif end < 0.8 or not is_last:
                house.crash(torn=b"" if choose.random() < 0.5 else b'{"v":4,"prev":"0')
            if house.key is KEY and not is_last and choose.random() < 0.3:
                house.hand_over(NEXT_KEY)
            if choose.random() < 0.3:
                house.clock.now_utc -= choose.randrange(60_000_000)
    return house
