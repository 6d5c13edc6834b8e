"""Journals to ship, and places that fail, lie or are cut off at any moment."""

from bussrv.archive.places import LocalPlace
from bussrv.archive.shipping import Shipper
from bussrv.archive.store import Store
from bussrv.journal.batch import Rotation
from bussrv.journal.files import Files
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.segment import is_segment_name
from bussrv.journal.shipped import read_shipped
from tests.journal.kept import Kept
from tests.journal.support import FakeClock, digest_of

EACH = Rotation(bytes=1)
"""Each batch ends its segment."""


class Killed(BaseException):
    """The program ends here."""


class Unsynced(Files):
    """As the disk is after a kill, and not after a power cut."""

    def sync(self, descriptor):
        pass

    def sync_directory(self, directory):
        pass


class Dying(Unsynced):
    """A disk of a program that is killed at one call, which may have written half.

    :param at: the number of the call; ``None``: it lives.
    """

    def __init__(self, at=None):
        self.at = at
        self.calls = 0

    def _call(self):
        self.calls += 1
        if self.calls - 1 == self.at:
            raise Killed

    def create(self, path, *args):
        self._call()
        return super().create(path, *args)

    def write(self, descriptor, data):
        try:
            self._call()
        except Killed:
            super().write(descriptor, data[: len(data) // 2])
            raise
        super().write(descriptor, data)

    def rename(self, path, target):
        self._call()
        super().rename(path, target)

    def remove(self, path):
        self._call()
        super().remove(path)

    def sync_directory(self, directory):
        self._call()


class Hooked(LocalPlace):
    """A place that calls a function before it does something.

    :ivar before: is given the verb and the name.
    :ivar calls: what it was asked, in order.
    """

    def __init__(self, directory, files=None):
        super().__init__(directory, files or Unsynced())
        self.before = lambda verb, name: None
        self.calls = []

    def _call(self, verb, name=""):
        self.calls.append((verb, name))
        self.before(verb, name)

    def names(self):
        self._call("names")
        return super().names()

    def create(self, name, parts):
        self._call("create", name)
        super().create(name, parts)

    def replace(self, name, parts):
        self._call("replace", name)
        super().replace(name, parts)

    def open(self, name):
        self._call("open", name)
        return super().open(name)


def written(directory, *names, **options):
    """A journal with a segment for each name, all closed, while its server runs on."""
    directory.mkdir(exist_ok=True)
    kept = Kept(directory, rotation=EACH, **options)
    for name in names:
        kept.write(name)
    kept.idle(1)
    return kept


def shipper(directory, place, told=None, **options):
    """Ships to a place without waiting for anything."""
    store = Store("file:///there", place, pause=lambda seconds: None)
    tell = (lambda seal, url: None) if told is None else lambda seal, url: told.append(seal.segment)
    return Shipper(directory, store, tell, clock=FakeClock(), **options)


def claim(directory):
    """The last segment that the file says is shipped; 0: none."""
    shipped = read_shipped(directory)
    return 0 if shipped is None else shipped.segment


def check_claim(directory, there):
    """What the file says is true: the segments are there, and so are their seals."""
    shipped = read_shipped(directory)
    if shipped is None:
        return
    here, manifest = read_manifest(directory / MANIFEST_NAME), read_manifest(there / MANIFEST_NAME)
    assert manifest.findings == []
    paths = {int(path.name.partition(".")[0]): path for path in there.iterdir() if is_segment_name(path.name)}
    for seal in here.closed():
        if seal.segment <= shipped.segment:
            assert manifest.seals[seal.segment] == seal
            assert digest_of(paths[seal.segment]) == (seal.bytes, seal.digest)
