"""The journal of a server: recovered, opened and closed."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from bussrv.errors import JournalError, named, os_errors_as
from bussrv.journal.batch import BatchWriter, Rotation, SyncMode
from bussrv.journal.condition import JournalCondition, JournalEnd
from bussrv.journal.interfaces import IJournal
from bussrv.journal.keys import PrivateKey, read_private
from bussrv.journal.lock import LOCK, JournalLock
from bussrv.journal.manifest import MANIFEST_NAME, Seal
from bussrv.journal.manifest_file import ManifestFile, read_manifest
from bussrv.journal.memory import MemoryJournal
from bussrv.journal.outlook import Growth, Outlook
from bussrv.journal.pseudonym_keys import Kind, check_key_file, renamed, renamed_rules
from bussrv.journal.pseudonyms import Pseudonyms
from bussrv.journal.recovery import Damaged, Recovered, recover
from bussrv.journal.salvage import salvage
from bussrv.journal.sealing import MARKER, Sealer
from bussrv.journal.space import Space
from bussrv.journal.upkeep import Upkeep, UpkeepPolicy
from bussrv.journal.writer import FileJournal
from bussrv.registry.state.fold import RegistryFold
from bussrv.registry.state.state import RegistryState
from bussrv.server.configuration.faults import noting
from bussrv.server.configuration.rehearsal import why_not_made
from bussrv.server.configuration.sources import of_option
from bussrv.server.running.checkpoints import JournalCheckpoints
from bussrv.settings import Settings
from bussrv.spool.file import SpoolFile
from bussrv.spool.interfaces import ISpool
from bussrv.spool.spool import Spool
from bussrv.transparency.notes import Note
from bussrv.turns.clock import Clock

SPOOL_SUFFIX = ".spool"
"""The directory of the spool has the name of the journal with this ending."""

log = Logger()


class JournalConfig(Struct, frozen=True, kw_only=True):
    """The place of a journal, and how it is kept.

    :ivar key: the file of the key that signs seals.
    :ivar origin: the name of the journal in its checkpoints; ``None``: it is made of the id of the server.
    :ivar pseudonyms: the file of the keys of pseudonyms; without it, names and addresses are written as they are.
    :ivar salvage: whether to begin a new chain after damage.
    :ivar min_free: bytes of the volume that stay free; ``None``: see :mod:`bussrv.journal.space`.
    """

    directory: Path
    sync: SyncMode = "always"
    rotation: Rotation = Rotation()
    policy: UpkeepPolicy = UpkeepPolicy()
    key: Path | None = None
    origin: str | None = None
    pseudonyms: Path | None = None
    salvage: bool = False
    min_free: int | None = None


class NoJournal:
    """Takes the place of :class:`JournalPlace` in a server without a journal."""

    def __init__(self) -> None:
        self.recovered = Recovered()
        self.state = RegistryState()

    def open(self, server: str, boot: str) -> IJournal:
        """A journal that keeps nothing."""
        return MemoryJournal(server, boot)

    def close(self) -> Deferred[None]:
        """Nothing was opened."""
        return succeed(None)

    def abandon(self) -> None:
        """Nothing was opened."""

    def spool(self, settings: Settings, counters: Counter[str], clock: Clock, reactor: Any) -> ISpool:
        """A spool in memory."""
        return Spool(SpoolFile(None), settings, counters, clock, reactor)

    def count_in(self, counters: Counter[str]) -> None:
        """Nobody changes it."""

    def outlook(self) -> Outlook:
        """Nothing grows."""
        return Outlook()

    def condition(self) -> JournalCondition:
        """Nothing fails."""
        return JournalCondition()


class JournalPlace:
    """The journal directory of a running server. It is locked from the beginning until :meth:`close`.

    :param place: the place of the value of an option, by its name.
    :ivar recovered: the journal as it was found.
    :ivar state: the registry that the journal says.
    :raises JournalError: it cannot be used, or is damaged and not to be salvaged.
    """

    def __init__(
        self,
        config: JournalConfig,
        clock: Clock,
        reactor: Any,
        place: Callable[[str], str] = of_option,
    ) -> None:
        self._config = config
        self._clock = clock
        self._reactor = reactor
        self._option = place
        self._journal: FileJournal | None = None
        self._upkeep: Upkeep | None = None
        self._growth: Growth | None = None
        self._writer: BatchWriter | None = None
        self._space: Space | None = None
        self._checkpoints: JournalCheckpoints | None = None
        self._background = ThreadPoolExecutor(1, "bussrv-journal-upkeep")
        with named(place("journal")):
            self._lock = JournalLock(config.directory)
        try:
            with named(place("journal-key")):
                self._key = _read_key(config)
            with named(place("journal-pseudonyms")):
                self._pseudonyms = self._open_pseudonyms()
            self._fold, self.recovered = self._recover()
        except BaseException:
            self._lock.release()
            raise
        self.state = self._fold.state.copy()
        if self._pseudonyms is not None:
            _name(self.state, self._pseudonyms.reveal_text)
            # Names from before there were pseudonyms must not stand in new snapshots. Pseudonyms stay as they are.
            _name(self._fold.state, self._hidden)

    def _hidden(self, kind: Kind, text: str) -> str:
        """The pseudonym of a name, or of the name behind a pseudonym."""
        assert self._pseudonyms is not None
        return self._pseudonyms.hide_text(kind, self._pseudonyms.reveal_text(kind, text))

    def _open_pseudonyms(self) -> Pseudonyms | None:
        if self._config.pseudonyms is None:
            return None
        check_key_file(self._config.pseudonyms, self._config.directory)
        return Pseudonyms(self._config.pseudonyms)

    def _recover(self) -> tuple[RegistryFold, Recovered]:
        fold = RegistryFold()
        try:
            return fold, recover(self._config.directory, fold)
        except Damaged as error:
            if not self._config.salvage:
                raise
            log.critical(
                "journal: a new chain begins after this damage: {error}", event="journal.salvaged", error=error.what
            )
            fold = RegistryFold()
            return fold, salvage(self._config.directory, error.damage, fold)

    def open(self, server: str, boot: str) -> IJournal:
        """Continue the journal.

        :param boot: the id of this boot.
        :raises JournalError: if another key than the one given is in force, or the manifest cannot be written.
        """
        config, pseudonyms = self._config, self._pseudonyms
        directory = config.directory
        manifest = read_manifest(directory / MANIFEST_NAME)
        place = self._option("journal-key")
        with os_errors_as(JournalError, f"cannot write {directory / MANIFEST_NAME}"), named(place):
            sealer = Sealer(directory, server, manifest=manifest, key=self._key, clock=self._clock, name=config.origin)
        upkeep = Upkeep(
            directory,
            sealer,
            manifest=manifest,
            unsealed=self.recovered.unsealed,
            policy=self._config.policy,
            clock=self._clock,
            later=self._background.submit,
        )
        policy = self._config.policy
        space = Space(directory, self._config.min_free, self._clock)
        self._growth = Growth(
            directory,
            space,
            manifest.closed(),
            self._clock,
            retain_age=policy.retain_age,
            retain_bytes=policy.retain_bytes,
            is_held=lambda: upkeep.watch.condition is not None and upkeep.watch.condition.is_held,
        )
        writer = BatchWriter(
            directory,
            server,
            boot,
            recovered=self.recovered,
            fold=self._fold,
            sync=self._config.sync,
            clock=self._clock,
            rotation=self._config.rotation,
            before_batch=self._keep_pseudonyms,
            keep_lock=self._lock.renew,
            last_seal=lambda: sealer.last_hash,
            space=space,
        )
        upkeep.begin()
        self._upkeep, self._writer, self._space = upkeep, writer, space
        self._checkpoints = JournalCheckpoints(
            directory, manifest, lambda: upkeep.last_seal, upkeep.cosign, self._reactor
        )
        hide = None if pseudonyms is None else pseudonyms.hide
        self._journal = FileJournal(writer, self._reactor, upkeep, hide)
        return self._journal

    def spool(self, settings: Settings, counters: Counter[str], clock: Clock, reactor: Any) -> ISpool:
        """The spool: beside the journal, named after it. Copies of a journal have no payloads."""
        directory = self._config.directory
        space = Space(directory, self._config.min_free, self._clock)
        file = SpoolFile(directory.with_name(directory.name + SPOOL_SUFFIX), space)
        return Spool(file, settings, counters, clock, reactor)

    def count_in(self, counters: Counter[str]) -> None:
        """Count changes of other programs in these counters; see :meth:`FileJournal.count_in`."""
        if self._journal is not None:
            self._journal.count_in(counters)

    def outlook(self) -> Outlook:
        """The outlook: how long the disk lasts."""
        return Outlook() if self._growth is None else self._growth.outlook()

    def condition(self) -> JournalCondition:
        """How well the journal can be written now."""
        journal, writer, space = self._journal, self._writer, self._space
        if journal is None or writer is None or space is None:
            return JournalCondition(is_on=True)
        since = journal.waiting_since
        return JournalCondition(
            is_on=True,
            trouble=journal.trouble or (space.sentence if space.is_low else writer.trouble),
            waiting=journal.waiting,
            oldest_wait=0.0 if since is None else max(0.0, (self._clock.mono() - since) / 1_000_000),
            written=space.written,
            free=space.free,
            usable=space.usable,
            shortage=space.sentence,
            syncs=writer.syncs,
            shipping=None if self._upkeep is None else self._upkeep.watch.condition,
        )

    @property
    def directory(self) -> Path:
        """Its path."""
        return self._config.directory

    @property
    def sync(self) -> SyncMode:
        """When a change counts as durable."""
        return self._config.sync

    def head(self) -> JournalEnd:
        """Its end."""
        assert self._writer is not None
        return self._writer.head

    def ask_for_seal(self) -> None:
        """Ask the writer to end the segment that grows, and to seal it, as ``bussrv journal seal`` does.

        :raises JournalError: it cannot be asked.
        """
        marker = self.directory / MARKER
        with os_errors_as(JournalError, f"cannot make {marker}"):
            marker.touch()

    def is_asked_for_seal(self) -> bool:
        """Whether the writer has still to do what :meth:`ask_for_seal` asked for."""
        return (self.directory / MARKER).exists()

    def last_seal(self) -> tuple[Seal, str] | None:
        """The last seal, and the hash of its line; ``None``: nothing is sealed."""
        return None if self._upkeep is None else self._upkeep.last_seal

    @property
    def checkpoints(self) -> JournalCheckpoints:
        """The checkpoints of the journal, which is open."""
        assert self._checkpoints is not None
        return self._checkpoints

    def cosigned(self) -> tuple[str, Note] | None:
        """See :class:`bussrv.admin.interfaces.AdministeredJournal`."""
        return self.checkpoints.cosigned

    def _keep_pseudonyms(self) -> None:
        if self._pseudonyms is not None:
            self._pseudonyms.refresh()
            self._pseudonyms.flush()

    def close(self) -> Deferred[None]:
        """Write and seal everything that is queued, and unlock the directory."""
        closed = succeed(None) if self._journal is None else self._journal.close()
        return closed.addBoth(self._let_go)

    def abandon(self) -> None:
        """Unlock a directory in which nothing was written, because the server could not start."""
        if self._upkeep is not None:
            self._upkeep.stop()
        if self._journal is not None:
            self._journal.abandon()
        self._let_go(None)

    def _let_go(self, result: Any) -> Any:
        # Work that has not begun is left to the next boot.
        self._background.shutdown(cancel_futures=True)
        if self._pseudonyms is not None:
            self._pseudonyms.close()
        self._lock.release()
        return result


def journal_faults(config: JournalConfig, place: Callable[[str], str]) -> list[str]:
    """The faults of the options of a journal. Only reads: the directory may be that of a running server.

    Damage of the journal is found by its recovery, or by :mod:`bussrv.journal.verify`.

    :param place: the place of the value of an option, by its name.
    """
    faults: list[str] = []
    with noting(place("journal"), faults):
        _check_directory(config.directory)
    with noting(place("journal-key"), faults):
        key = _read_key(config)
        if not faults:
            _check_manifest(config.directory / MANIFEST_NAME, key)
    with noting(place("journal-pseudonyms"), faults):
        if config.pseudonyms is not None:
            _check_pseudonyms(config.pseudonyms, config.directory)
    return faults


def _check_directory(directory: Path) -> None:
    """Check that the lock can be taken there: it, the directory, or the nearest one above it, can be written to."""
    lock = directory / LOCK
    try:
        nearest = next(each for each in (directory, *directory.parents) if each.exists())
        if nearest == directory and not directory.is_dir():
            why: int | None = errno.EEXIST
        elif lock.exists() and not os.access(lock, os.R_OK | os.W_OK):
            why = errno.EACCES
        else:
            why = why_not_made(nearest / LOCK)
    except OSError as error:
        why = error.errno
    if why is not None:
        raise JournalError(f"cannot write the journal directory {directory}: {os.strerror(why)}")


def _check_pseudonyms(path: Path, directory: Path) -> None:
    """Check that the file of the keys of pseudonyms can be used, or made."""
    check_key_file(path, directory)
    try:
        with path.open("rb") as file:
            file.read(1)
        why = None if os.access(path, os.W_OK) else errno.EACCES
    except FileNotFoundError:
        why = why_not_made(path.resolve())
    except OSError as error:
        why = error.errno
    if why is not None:
        raise JournalError(f"cannot use the key file {path}: {os.strerror(why)}")


def _check_manifest(path: Path, key: PrivateKey | None) -> None:
    """Check that a manifest can go on with the key that signs seals."""
    manifest = read_manifest(path)
    if manifest.in_force is not None:
        ManifestFile(path, manifest, key)


def _read_key(config: JournalConfig) -> PrivateKey | None:
    """The key that signs seals.

    :raises JournalError: it cannot be used.
    """
    path, directory = config.key, config.directory
    if path is None:
        return None
    if path.resolve().is_relative_to(directory.resolve()):
        raise JournalError(
            f"the private key {path} lies in the journal directory {directory}: whoever can change the journal "
            "could sign it anew. Put it elsewhere."
        )
    return read_private(path)


def _name(state: RegistryState, name: Callable[[Kind, str], str]) -> None:
    """Replace the users and addresses of sessions, and of the rules in effect."""
    for each in tuple(state.sessions.values()):
        state.sessions[each.id] = renamed(each, name)
    if state.in_effect is not None:
        state.in_effect = renamed_rules(state.in_effect, name)
