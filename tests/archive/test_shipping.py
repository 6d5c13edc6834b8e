"""What is shipped, and what is said of it: whatever happens here, there and in between."""

import errno
import os
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bussrv.archive import shipping
from bussrv.archive.fetching import fetch
from bussrv.archive.shipping import Mismatch, alone, beginning, follow
from bussrv.archive.store import DELAYS, Store, StoreError
from bussrv.errors import JournalError
from bussrv.journal import closed, manifest_file
from bussrv.journal.batch import Rotation
from bussrv.journal.keys import generate, read_private
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.segment import list_segments
from bussrv.journal.shipped import SHIPPED_NAME, read_shipped
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.journal.verify import verify
from tests.archive.stores import EACH, Dying, Hooked, Killed, Unsynced, check_claim, claim, shipper, written
from tests.journal.kept import Kept, pruned, segments
from tests.journal.support import contents, fact

HERE, THERE = "here", "there"


@pytest.fixture
def here(tmp_path):
    return tmp_path / HERE


@pytest.fixture
def place(tmp_path):
    return Hooked(tmp_path / THERE)


def fetched(place, tmp_path):
    """The segments that come back, after a check that nothing is wrong with them."""
    target = tmp_path / f"fetched-{len(list(tmp_path.iterdir()))}"
    assert fetch(Store("file:///there", place), target, files=Unsynced()).faults == []
    return segments(target)


def test_what_is_closed_is_there_and_what_grows_is_not(here, place, tmp_path):
    here.mkdir()
    (here / "names.keys").write_text("who is behind the pseudonyms")
    (here / "hall.key").write_text("the private key")
    kept = written(here, *"abc", policy=UpkeepPolicy(compress=True))
    kept.writer._rotation = replace(EACH, bytes=1 << 20)
    kept.write("d")
    told = []
    backlog = shipper(here, place, told).look()
    assert (told, claim(here), backlog.segments) == ([1, 2, 3], 3, 0)
    assert segments(here) == [1, 2, 3, 4]
    there = contents(tmp_path / THERE)
    assert there.keys() == {*(f"{number:020d}.jsonl.gz" for number in (1, 2, 3)), MANIFEST_NAME}
    assert contents(here)[MANIFEST_NAME].startswith(there[MANIFEST_NAME])
    assert fetched(place, tmp_path) == [1, 2, 3]
    place.calls.clear()
    assert shipper(here, place, told).look().segments == 0
    # Nothing is written again.
    assert {verb for verb, _ in place.calls} == {"names", "open"}


def test_a_kill_anywhere_leaves_nothing_half(here, tmp_path, monkeypatch):
    """Every call to a disk, of the journal and of the store, and what the next one makes of it."""
    written(here, *"abcd")
    for at in range(1000):
        for each in (here / SHIPPED_NAME, *(tmp_path / THERE).glob("*")):
            each.unlink(missing_ok=True)
        disk = Dying(at)
        place = Hooked(tmp_path / THERE, disk)
        monkeypatch.setattr(shipping, "write_shipped", lambda *given, disk=disk: write(*given, disk))
        try:
            shipper(here, place).look()
        except Killed:
            check_claim(here, tmp_path / THERE)
            if (tmp_path / THERE / MANIFEST_NAME).exists():
                fetched(place_again(tmp_path), tmp_path)
        else:
            break
        monkeypatch.setattr(shipping, "write_shipped", write)
        shipper(here, place_again(tmp_path)).look()
        check_claim(here, tmp_path / THERE)
        assert claim(here) == 4
        assert fetched(place_again(tmp_path), tmp_path) == [1, 2, 3, 4]
    assert at > 20


write = shipping.write_shipped


def place_again(tmp_path):
    return Hooked(tmp_path / THERE)


class AnyOrder:
    """A server with retention, and a shipper that is killed, with a store that fails or loses things."""

    def __init__(self, root, data):
        self.here, self.there = root / HERE, root / THERE
        self.here.mkdir()
        compress = data.draw(st.booleans())
        self._policy = UpkeepPolicy(retain_age=86_400.0, retain_shipped=True, compress=compress)
        self._data = data
        self.kept = Kept(self.here, rotation=EACH, policy=self._policy)
        self._lost = set()

    def write(self):
        self.kept.write("x")

    def idle(self):
        self.kept.idle(1)

    def day(self):
        self.kept.idle(86_400)

    def restart(self):
        self.kept.end()
        self.kept = Kept(self.here, clock=self.kept.clock, rotation=EACH, policy=self._policy)

    def lose(self):
        found = [path for path in self.paths_there() if int(path.name.partition(".")[0]) in segments(self.here)]
        if found:
            path = self._data.draw(st.sampled_from(found))
            path.unlink()
            self._lost.add(int(path.name.partition(".")[0]))

    def ship(self):
        if segments(self.here):
            shipper(self.here, Hooked(self.there)).look()

    def kill(self):
        self._ship_until(Killed())

    def fail(self):
        self._ship_until(OSError(errno.EACCES, "no"))

    def _ship_until(self, trouble):
        place, left = Hooked(self.there), self._data.draw(st.integers(0, 20))

        def before(verb, name):
            if len(place.calls) > left:
                raise trouble

        place.before = before
        with suppress(Killed, JournalError):
            shipper(self.here, place).look()

    def paths_there(self):
        return list_segments(self.there) if self.there.exists() else []

    def check(self):
        there = {int(path.name.partition(".")[0]) for path in self.paths_there()}
        # What was lost and is still here comes back with the next look.
        self._lost -= there
        assert pruned(self.here) == [] or {*pruned(self.here)} <= there | self._lost
        if not self._lost:
            check_claim(self.here, self.there)


STEPS = ("write", "idle", "day", "restart", "lose", "ship", "kill", "fail")


@pytest.mark.dear
@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=25), st.data())
def test_retention_never_removes_what_is_not_there(tmp_path_factory, steps, data):
    root = tmp_path_factory.mktemp("any-order")
    scene = AnyOrder(root, data)
    for step in steps:
        getattr(scene, step)()
        scene.check()
    scene.write()
    scene.kept.end()
    assert verify(scene.here).faults == []
    scene.ship()
    assert fetched(Hooked(scene.there), root)[-1] == segments(scene.here)[-1]


def test_what_is_damaged_here_is_not_shipped(here, place, tmp_path):
    written(here, *"abcd")
    path = list_segments(here)[2]
    path.chmod(0o600)
    path.write_bytes(path.read_bytes().replace(b'"c"', b'"x"'))
    with pytest.raises(Mismatch, match=r"0003\.jsonl is not what its seal says"):
        shipper(here, place).look()
    assert claim(here) == 2
    assert fetched(place, tmp_path) == [1, 2]
    path.unlink()
    with pytest.raises(Mismatch, match=r"0003\.jsonl is missing, though it is sealed"):
        shipper(here, place).look()
    assert claim(here) == 2


def test_a_segment_without_its_last_seal_stops_all(here, place):
    kept = written(here, *"ab")
    kept.writer.commit([fact("c")])
    kept.writer.rotate()
    path = here / f"{3:020d}.jsonl"
    path.write_bytes(path.read_bytes() + b"x")
    kept.idle(1)
    kept.write("d")
    kept.idle(1)
    assert 3 not in read_manifest(here / MANIFEST_NAME).seals
    with pytest.raises(Mismatch, match=r"segment 3 of .* is not sealed"):
        shipper(here, place).look()
    assert claim(here) == 2


def test_a_manifest_that_is_damaged_here_stops_all(here, place):
    written(here, *"ab")
    path = here / MANIFEST_NAME
    path.write_bytes(path.read_bytes().replace(b'"closed":true', b'"closed":null', 1))
    with pytest.raises(Mismatch, match=r"manifest, line \d+: "):
        shipper(here, place).look()
    assert place.calls == []


def test_only_seals_of_the_trusted_key_are_shipped(here, place, tmp_path):
    mine, other = (generate(tmp_path / name) for name in ("mine", "other"))
    written(here, *"ab", key=read_private(tmp_path / "mine"))
    with pytest.raises(Mismatch, match="no entry is signed with the trusted key"):
        shipper(here, place, trusted=other).look()
    assert shipper(here, place, trusted=mine).look().segments == 0


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (f"{2:020d}.jsonl", b"something else", "is not what the seal of segment 2 says"),
        (f"{2:020d}.jsonl.gz", b"something else", "is not what the seal of segment 2 says"),
        (f"{9:020d}.jsonl", b"something else", "is not of this journal: one URL holds one journal"),
        (MANIFEST_NAME, b"something else\n", "is not the beginning of .*: it was damaged"),
        (MANIFEST_NAME, b"", None),
    ],
)
def test_what_is_foreign_there_is_named_and_stays(here, place, name, content, said):
    written(here, *"abc")
    place.directory.mkdir()
    (place.directory / name).write_bytes(content)
    if said is None:
        shipper(here, place).look()
        return
    with pytest.raises(Mismatch, match=said):
        shipper(here, place).look()
    assert contents(place.directory)[name] == content
    assert claim(here) < 2


def test_two_servers_do_not_share_a_place(here, place, tmp_path):
    written(here, *"ab")
    written(tmp_path / "other", *"xyz")
    shipper(here, place).look()
    before = contents(place.directory)
    with pytest.raises(Mismatch, match="it is of a journal of the server server"):
        shipper(tmp_path / "other", place).look()
    # Both find nothing, and one is faster.
    for each in place.directory.iterdir():
        each.unlink()
    (here / SHIPPED_NAME).unlink()

    def faster(verb, name):
        if verb == "create":
            place.before = lambda verb, name: None
            shipper(here, place).look()

    place.before = faster
    with pytest.raises(Mismatch, match="is not what the seal of segment 1 says"):
        shipper(tmp_path / "other", place).look()
    assert contents(place.directory) == before
    assert claim(tmp_path / "other") == 0


def test_a_journal_that_went_on_differently_is_foreign(here, place, tmp_path):
    """A copy from before what was shipped last, with which another server goes on."""
    written(here, *"ab").end()
    old = contents(here)
    clock = Kept(here, rotation=EACH).clock
    written(here, *"cd", clock=clock)
    shipper(here, place).look()
    copy = tmp_path / "copy"
    copy.mkdir()
    for name, content in old.items():
        (copy / name).write_bytes(content)
    written(copy, *"xy")
    before = contents(place.directory)
    with pytest.raises(Mismatch, match="went on differently"):
        shipper(copy, place).look()
    assert contents(place.directory) == before


def test_a_store_that_lies_is_not_believed(here, place, monkeypatch):
    written(here, *"ab")
    whole = Hooked.create

    def half(self, name, parts):
        data = b"".join(parts)
        whole(self, name, [data[: len(data) // 2]])

    monkeypatch.setattr(Hooked, "create", half)
    with pytest.raises(Mismatch, match="is not what the seal of segment 1 says"):
        shipper(here, place).look()
    assert claim(here) == 0
    assert MANIFEST_NAME not in contents(place.directory)


def test_a_store_that_drops_the_manifest_is_not_believed(here, place, monkeypatch):
    written(here, *"ab")
    whole = Hooked.replace
    monkeypatch.setattr(Hooked, "replace", lambda self, name, parts: whole(self, name, [next(iter(parts))[:100]]))
    with pytest.raises(Mismatch, match="has 100 bytes of the"):
        shipper(here, place).look()
    assert claim(here) == 0


@pytest.mark.parametrize("verb", ["names", "create", "open", "replace"])
def test_what_passes_is_tried_again_and_nothing_else(here, place, verb):
    written(here, *"ab")
    failed = []

    def failing(what, name):
        if what == verb and len(failed) < len(DELAYS):
            failed.append(name)
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    place.before = failing
    assert shipper(here, place).look().segments == 0
    assert len(failed) == len(DELAYS)
    (here / SHIPPED_NAME).unlink()
    for each in place.directory.iterdir():
        each.unlink()
    failed = []

    def refusing(what, name):
        if what == verb:
            failed.append(name)
            raise PermissionError(errno.EACCES, "Access Denied")

    place.before = refusing
    with pytest.raises(StoreError, match=r"it is refused: Access Denied\. Check the credentials") as found:
        shipper(here, place).look()
    assert (len(failed), found.value.is_passing) == (1, False)


def test_a_lost_answer_is_no_foreign_object(here, place):
    """The store has the segment, but the client was not told."""
    written(here, *"ab")
    real = place.create

    def create(name, parts):
        real(name, parts)
        raise TimeoutError("no answer")

    place.create = create
    assert shipper(here, place).look().segments == 0
    assert claim(here) == 2


def test_segments_that_end_meanwhile_come_next(here, place):
    kept = written(here, *"ab")

    def during(verb, name):
        if verb == "create":
            kept.write("more")
            kept.idle(1)

    place.before = during
    told = []
    one = shipper(here, place, told)
    one.look()
    assert told == [1, 2]
    assert one.is_more()
    place.before = lambda verb, name: None
    assert one.look().segments == 0
    assert told == segments(here)


def test_segments_that_are_compressed_meanwhile_are_found(here, place, tmp_path):
    written(here, *"abc")
    seals = read_manifest(here / MANIFEST_NAME).seals

    def during(verb, name):
        if verb == "create" and not name.endswith(".gz"):
            closed.compress(here / name, seals[int(name.partition(".")[0])].digest, Unsynced())

    place.before = during
    assert shipper(here, place).look().segments == 0
    assert fetched(place, tmp_path) == [1, 2, 3]


def test_segments_that_are_removed_meanwhile_are_told(here, place, tmp_path):
    kept = written(here, *"abc", policy=UpkeepPolicy(retain_age=86_400.0))

    def during(verb, name):
        if verb == "create":
            place.before = lambda verb, name: None
            for _ in range(3):
                kept.idle(86_400)

    place.before = during
    one = shipper(here, place)
    one.look()
    assert one.removed() == len(pruned(here)) >= 3
    kept.write("d")
    kept.idle(1)
    assert one.look().segments == 0
    assert one.removed() == len(pruned(here))
    assert fetched(place, tmp_path) == [each for each in segments(here) if each not in pruned(here)]


def test_what_the_store_lost_is_shipped_again(here, place):
    written(here, *"abc")
    shipper(here, place).look()
    (place.directory / f"{2:020d}.jsonl").unlink()
    told = []
    shipper(here, place, told).look()
    assert told == [2]


def test_the_file_of_another_journal_says_nothing(here, place, tmp_path):
    written(tmp_path / "other", *"xyz")
    shipper(tmp_path / "other", Hooked(tmp_path / "elsewhere")).look()
    written(here, *"abc")
    (here / SHIPPED_NAME).write_bytes((tmp_path / "other" / SHIPPED_NAME).read_bytes())
    told = []
    shipper(here, place, told).look()
    assert told == [1, 2, 3]
    for content in (b"", b"{", b'{"v":2}'):
        (here / SHIPPED_NAME).write_bytes(content)
        assert read_shipped(here) is None
        shipper(here, place).look()
        assert claim(here) == 3


def test_one_journal_is_shipped_to_one_url(here, place):
    written(here, "a")
    shipper(here, place).look()
    other = Store("file:///elsewhere", place)
    with pytest.raises(JournalError, match="is shipped to file:///there: to ship it to file:///elsewhere, remove"):
        shipping.Shipper(here, other).look()
    with pytest.raises(JournalError, match="is the journal directory itself"):
        shipper(here, Hooked(here))
    with alone(here), pytest.raises(JournalError, match="another program ships"), alone(here):
        pass
    with pytest.raises(JournalError, match="cannot read the journal directory"):
        shipper(here / "nowhere", place).look()
    (here / "empty").mkdir()
    with pytest.raises(JournalError, match="holds no journal"):
        shipper(here / "empty", place).look()


def test_many_segments_take_few_listings_and_manifests(here, place):
    written(here, *(["x"] * 400))
    said = []
    place.before = lambda verb, name: said.append(claim(here))
    assert shipper(here, place).look().segments == 0
    verbs = [verb for verb, _ in place.calls]
    assert verbs.count("create") == 400
    # What was shipped is said while more is on its way.
    assert 1 < verbs.count("replace") < 10
    assert len({*said}) == verbs.count("replace")
    assert verbs.count("names") == 1


class Over(Exception):
    """A test has seen enough."""


def test_following_ships_what_is_closed_later(here, place):
    kept = written(here, *"ab")
    told, said, pauses = [], [], []
    one = shipper(here, place, told)

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            kept.write("c")
            kept.idle(1)
        if len(pauses) == 6:
            place.before = failing
            kept.write("d")
            kept.idle(1)
        if len(pauses) == 9:
            place.before = lambda verb, name: None
        if len(pauses) == 12:
            raise Over

    def failing(verb, name):
        raise ConnectionError("no route to it")

    calls = []
    looked = one.look
    one.look = lambda: calls.append(len(pauses)) or looked()
    with pytest.raises(Over):
        follow(one, said.append, pause)
    assert told == [1, 2, 3, 4]
    # Nothing is read while nothing is closed; a store that fails is asked ever more rarely.
    assert calls == [0, 3, 6, 7, 8, 9]
    assert pauses[6:9] == [5.0, 10.0, 20.0]
    assert said[0].startswith("cannot list file:///there: no route to it; 1 closed segment is not shipped, the oldest")
    assert said[-1] == "the store works again; all closed segments are shipped"
    place.before = lambda verb, name: (_ for _ in ()).throw(FileNotFoundError(errno.ENOENT, "NoSuchBucket"))
    with pytest.raises(StoreError, match="there is no such bucket or file: NoSuchBucket"):
        follow(one, said.append, pause)


def test_following_reads_nothing_twice(here, place, monkeypatch):
    kept = written(here, *"ab")
    one = shipper(here, place)
    one.look()
    kept.writer._rotation = Rotation(bytes=1 << 20)
    kept.write("c")
    read = []

    class Counted:
        def __init__(self, file):
            self._file = file

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self._file.close()

        def __getattr__(self, name):
            return getattr(self._file, name)

        def read(self):
            read.append(self._file.read())
            return read[-1]

    real = manifest_file.read_regular
    monkeypatch.setattr(manifest_file, "read_regular", lambda path: Counted(real(path)))
    assert [one.is_more() for _ in range(3)] == [False] * 3
    # The first seal of a segment that grows.
    assert [each.count(b"\n") for each in read] == [1, 0, 0]
    kept.writer.rotate()
    kept.idle(1)
    assert one.is_more()


def test_a_beginning_names_no_segment_that_is_missing(here):
    """Retention removed the first ones before there was a store."""
    kept = written(here, *"abc", policy=UpkeepPolicy(retain_age=86_400.0))
    for _ in range(3):
        kept.idle(86_400)
    manifest = read_manifest(here / MANIFEST_NAME)
    there = {seal.segment for seal in manifest.closed()}
    count, last = beginning(manifest, there)
    seals = {each.body.segment for each in manifest.entries[:count]}
    assert seals <= there | manifest.pruned.keys()
    assert last is None or last.segment in there
    assert beginning(manifest, set()) == (0, None) or beginning(manifest, set())[1] is None
