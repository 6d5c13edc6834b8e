"""A journal with everything that a server keeps it with but threads: it is looked after when the test says so."""

from bussrv import events as ev
from bussrv.journal.batch import make_entry
from bussrv.journal.manifest import MANIFEST_NAME, Pruned, Seal
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.recovery import recover
from bussrv.journal.sealing import Sealer
from bussrv.journal.segment import list_segments
from bussrv.journal.upkeep import Upkeep, UpkeepPolicy
from bussrv.registry.state.fold import RegistryFold
from tests.journal.support import Disk, FakeClock, stamp, writer


def at_once(function):
    function()


class Kept:
    """One boot of a server.

    :param later: what is done with what takes long.
    """

    def __init__(self, directory, *, disk=None, clock=None, key=None, later=at_once, policy=None, **options):
        self.directory = directory
        self.disk = disk or Disk()
        self.clock = clock or FakeClock()
        fold = RegistryFold()
        recovered = recover(directory, fold, self.disk)
        manifest = read_manifest(directory / MANIFEST_NAME)
        self.sealer = Sealer(directory, "server", manifest=manifest, key=key, clock=self.clock, files=self.disk)
        self.upkeep = Upkeep(
            directory,
            self.sealer,
            manifest=manifest,
            unsealed=recovered.unsealed,
            policy=policy or UpkeepPolicy(),
            clock=self.clock,
            later=later,
            files=self.disk,
        )
        self.writer = writer(
            directory,
            recovered=recovered,
            fold=fold,
            clock=self.clock,
            files=self.disk,
            last_seal=lambda: self.sealer.last_hash,
            **options,
        )
        self.upkeep.begin()

    def write(self, *names):
        """A batch, and the look behind it."""
        self.writer.commit([make_entry([stamp(ev.AuthSucceeded(actor=name), self.clock)]) for name in names])
        self.upkeep.do_due_work(self.writer)

    def idle(self, seconds=0.0):
        """Nothing comes for some time, and then still nothing."""
        self.clock.advance(seconds)
        self.write()

    def end(self):
        """Stop in an orderly way."""
        self.write()
        self.writer.close()
        self.upkeep.do_due_work(self.writer, at_end=True)


def entries(directory, kind):
    """The entries of the manifest of that kind, after checking that there is no fault in it."""
    manifest = read_manifest(directory / MANIFEST_NAME)
    assert manifest.findings == []
    return [entry.body for entry in manifest.entries if isinstance(entry.body, kind)]


def seals(directory):
    """What the manifest says is sealed: segment, last record, and whether it was closed."""
    return [(seal.segment, seal.last_seq, seal.closed) for seal in entries(directory, Seal)]


def pruned(directory):
    """The segments that the manifest says are removed."""
    return [each.segment for each in entries(directory, Pruned)]


def names(directory):
    """The segments, compressed or not, and what else of them is there."""
    return [path.name.lstrip("0") for path in sorted(directory.iterdir()) if path.name.startswith("0")]


def segments(directory):
    """The numbers of the segments."""
    return [int(path.name.partition(".")[0]) for path in list_segments(directory)]
