"""The thread of a spool: what it is asked, in which order, and what it does about a disk that fails or gets full."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from twisted.internet.defer import Deferred
from zope.interface.verify import verifyObject

from bussrv.errors import OverLimit, Refused, SpoolUnavailable
from bussrv.journal.files import Files
from bussrv.journal.space import Space
from bussrv.settings import Settings
from bussrv.spool.accounts import ENTRY_BYTES, OWNER_BYTES
from bussrv.spool.entries import (
    Append,
    AppendToAll,
    Claim,
    Drop,
    DropsTold,
    Put,
    Remove,
    RemoveKey,
    RemoveUpTo,
    Replace,
    Written,
)
from bussrv.spool.file import NAME, SpoolFile
from bussrv.spool.interfaces import ISpool
from bussrv.spool.spool import IDLE, MOST_WAITING, UNTIDY
from bussrv.spool.store import SpoolStore
from tests.small_disk import fill, small_disk
from tests.spool.support import Scene, bytes_of
from tests.tables import each_row

Make = Callable[..., Scene]

ADDRESS = "10.0.0.1:7"


def append(payload: bytes, owner: str = "ann") -> Append:
    return Append(owner=owner, kind="queue", payload=payload)


def test_it_keeps_what_its_interface_says(scene: Scene) -> None:
    assert verifyObject(ISpool, scene.spool)


def test_nothing_is_made_before_something_is_kept(tmp_path: Path, scene: Scene) -> None:
    assert not (tmp_path / "spool").exists()
    scene.close()
    assert not (tmp_path / "spool").exists()


@pytest.mark.parametrize("is_file", [True, False])
def test_a_reading_has_the_changes_before_it(made: Make, is_file: bool) -> None:
    scene = made(is_file=is_file)
    told: list[object] = []
    written = [
        scene.spool.write([Claim(owner="ann", address=ADDRESS), append(b"one")]),
        scene.spool.page("ann", "queue"),
        scene.spool.write([append(b"two")]),
        scene.spool.page("ann", "queue"),
        scene.spool.write([Drop(owner="ann")]),
        scene.spool.owner("ann"),
    ]
    for each in written:
        each.addCallback(told.append)
    scene.reactor.run_until(lambda: len(told) == len(written))
    first, one, second, two, dropped, nobody = told
    assert (first, second, dropped, nobody) == (Written((1,)), Written((2,)), Written(), None)
    assert [[each.payload for each in page.entries] for page in (one, two)] == [[b"one"], [b"one", b"two"]]
    assert scene.disk.statements["COMMIT"] == 2, "all of them are one commit, after that of the tables"


def test_pages_end_at_their_bounds_and_go_on_after_a_number(scene: Scene) -> None:
    scene.write(Claim(owner="ann", address=ADDRESS), *[append(b"x" * size) for size in (10, 10, 500, 10)])
    sizes = []
    after, is_last = 0, False
    while not is_last:
        page = scene.page(after=after, most=2, most_bytes=100)
        sizes.append([len(each.payload) for each in page.entries])
        after, is_last = page.entries[-1].number, page.is_last
    assert sizes == [[10, 10], [500], [10]]
    assert scene.page(after=after).entries == ()


@each_row(
    ("change", "left"),
    [
        (Remove(owner="ann", kind="queue", number=2), {"queue": [1, 3], "state": [4]}),
        (Remove(owner="ann", kind="state", number=2), {"queue": [1, 2, 3], "state": [4]}),
        (Remove(owner="eve", kind="queue", number=2), {"queue": [1, 2, 3], "state": [4]}),
        (Replace(owner="ann", kind="queue", number=2, payload=b""), {"queue": [1, 2, 3], "state": [4]}),
        (Append(owner="eve", kind="queue", payload=b"", or_drop=True), {"queue": [1, 2, 3], "state": [4]}),
        (RemoveUpTo(owner="ann", kind="queue", number=2), {"queue": [3], "state": [4]}),
        (RemoveKey(owner="ann", kind="state", key="k"), {"queue": [1, 2, 3], "state": []}),
        (RemoveKey(owner="ann", kind="queue", key="k"), {"queue": [1, 2, 3], "state": [4]}),
        (Drop(owner="bob"), {"queue": [1, 2, 3], "state": [4]}),
        (Put(owner="ann", kind="state", key="k", payload=b"new"), {"queue": [1, 2, 3], "state": [4]}),
        (Put(owner="ann", kind="state", key="l", payload=b"new"), {"queue": [1, 2, 3], "state": [4, 5]}),
    ],
)
def test_changes(made: Make, change: object, left: dict[str, list[int]]) -> None:
    scene = made(is_file=False)
    scene.write(Claim(owner="ann", address=ADDRESS), append(b"1"), append(b"2"), append(b"3"))
    scene.put("k", b"4")
    scene.write(change)
    found = {kind: [each.number for each in scene.page(kind=kind).entries] for kind in left}
    assert found == left


LIMITS = {
    "max_spool_entries": ({"max_spool_entries": 1}, "max-spool-entries"),
    "max_spool": ({"max_spool": 1000}, "max-spool"),
    "max_spool_per_address": ({"max_spool_per_address": 1000}, "max-spool-per-address"),
    "max_spool_total": ({"max_spool_total": 1000}, "max-spool-total"),
}


@pytest.mark.parametrize(("settings", "limit"), LIMITS.values(), ids=LIMITS)
def test_what_exceeds_a_limit_is_refused_with_all_of_its_call(made: Make, settings: dict[str, int], limit: str) -> None:
    scene = made(is_file=False, **settings)
    scene.claim()
    scene.append(b"x" * 300)
    with pytest.raises(OverLimit) as refused:
        scene.write(append(b"y" * 300), append(b"z" * 300))
    assert (refused.value.reason, refused.value.limit, refused.value.value) == ("spool-full", limit, *settings.values())
    assert scene.payloads() == [b"x" * 300]
    assert scene.counters == {limit: 1}


@pytest.mark.parametrize(("settings", "limit"), LIMITS.values(), ids=LIMITS)
def test_an_owner_may_rather_lose_its_oldest(made: Make, settings: dict[str, int], limit: str) -> None:
    scene = made(is_file=False, **settings)
    scene.claim(drops_oldest=True)
    for number in range(4):
        scene.append(b"%d" % number * 300)
    assert scene.payloads()[-1] == b"3" * 300
    lost = 4 - len(scene.payloads())
    assert lost > 0
    assert scene.wait(scene.spool.owner("ann")).dropped == lost
    assert scene.counters == {"spool-dropped": lost}
    # Nothing is dropped for what cannot fit, nor of another kind.
    before = scene.payloads()
    if limit != "max-spool-entries":
        with pytest.raises(OverLimit):
            scene.append(b"4" * 2000)
    with pytest.raises(OverLimit):
        scene.write(Append(owner="ann", kind="other", payload=b"5" * 900))
    assert scene.payloads() == before
    scene.write(DropsTold(owner="ann", count=lost))
    assert scene.wait(scene.spool.owner("ann")).dropped == 0


def test_an_address_is_one_with_any_port_local_ones_are_exempt(made: Make) -> None:
    scene = made(is_file=False, max_spool_per_address=600)
    scene.claim("ann", "[2001:db8::1]:7")
    scene.claim("bob", "[2001:db8::2]:8")
    scene.claim("eve", "127.0.0.1:8")
    scene.append(b"x" * 1000, "eve")
    with pytest.raises(OverLimit):
        scene.append(b"x" * 101, "bob")
    # It comes back from elsewhere, and what it has counts there.
    scene.claim("bob", "10.0.0.9:7")
    scene.append(b"x" * 101, "bob")
    scene.append(b"x" * 101, "ann")


def test_it_says_how_much_is_kept(scene: Scene) -> None:
    assert scene.spool.kept == 0
    scene.claim()
    scene.append(b"x" * 50)
    assert scene.spool.kept == OWNER_BYTES + ENTRY_BYTES + 50
    scene.write(Drop(owner="ann"))
    assert scene.spool.kept == 0


def test_owners_are_limited_by_their_own_bytes(made: Make) -> None:
    scene = made(is_file=False, max_spool_total=500)
    scene.claim("ann")
    scene.claim("bob")
    with pytest.raises(OverLimit):
        scene.claim("eve")
    assert scene.wait(scene.spool.owners()) == ("ann", "bob")
    assert scene.wait(scene.spool.owners(after="ann", most=1)) == ("bob",)


@each_row(
    "change",
    [append(b"x"), Put(owner="ann", kind="k", key="k", payload=b"")],
)
def test_an_owner_has_to_be_claimed(made: Make, change: object) -> None:
    scene = made(is_file=False)
    with pytest.raises(Refused) as refused:
        scene.write(change)
    assert refused.value.reason == "no-such-owner"


def test_a_change_that_cannot_be_written_hurts_nobody_else(scene: Scene) -> None:
    scene.claim()
    bad, good = (
        scene.spool.write([append(b"x"), Append(owner="ann", kind="\ud800", payload=b"y")]),
        scene.spool.write([append(b"good")]),
    )
    with pytest.raises(UnicodeEncodeError):
        scene.wait(bad)
    scene.wait(good)
    assert scene.payloads() == [b"good"]


def test_entries_expire_by_one_timer_and_leave_the_files(tmp_path: Path, scene: Scene) -> None:
    scene.claim()
    now = scene.clock.utc()
    scene.append(b"short " * 10, expires=now + 5_000_000)
    scene.append(b"long " * 10, expires=now + 300_000_000)
    scene.append(b"for ever")
    assert len(scene.reactor.getDelayedCalls()) == 1
    scene.advance(4.9)
    assert len(scene.payloads()) == 3
    # It is not shown from then on, whether or not the timer was faster.
    scene.clock.advance(0.2)
    assert scene.payloads() == [b"long " * 10, b"for ever"]
    scene.reactor.advance(0.2)
    scene.reactor.run_until(lambda: scene.counters["spool-expired"])
    while scene.counters["spool-expired"] < 2:
        # A clock that is set forward is noticed within a minute.
        scene.advance(60)
        scene.page()
    assert scene.payloads() == [b"for ever"]
    assert scene.reactor.getDelayedCalls() == []
    scene.close()
    assert b"short" not in bytes_of(tmp_path / "spool")
    assert b"long" not in bytes_of(tmp_path / "spool")
    assert b"for ever" in bytes_of(tmp_path / "spool")


def test_a_timer_goes_on_after_a_restart(scene: Scene) -> None:
    scene.claim()
    scene.append(b"x", expires=scene.clock.utc() + 5_000_000)
    scene.close()
    scene.start()
    scene.page()
    scene.advance(5)
    scene.reactor.run_until(lambda: scene.counters["spool-expired"])


def test_removed_bytes_leave_the_files_while_the_server_runs(tmp_path: Path, scene: Scene) -> None:
    scene.claim()
    for size in (10, 500, 3000, 9000):
        scene.append(b"secret" * size)
    assert b"secret" in bytes_of(tmp_path / "spool")
    scene.write(RemoveUpTo(owner="ann", kind="queue", number=100))
    scene.clock.advance(UNTIDY)
    # The thread tidies up when it has been idle; nothing tells the test, so it looks.
    for _ in range(200):
        if b"secret" not in bytes_of(tmp_path / "spool"):
            break
        scene.spool._thread.join(IDLE / 20)
    else:
        pytest.fail("the bytes stay")
    assert (tmp_path / "spool" / NAME).stat().st_size < 60_000


def scattered(scene: Scene, seed: int) -> set[bytes]:
    """Add and remove entries of all sizes in a mixed order. :returns: those that are left."""
    random = Random(seed)
    left: dict[int, bytes] = {}
    scene.claim()
    for number in range(600):
        if left and random.random() < 0.5:
            gone = random.choice(list(left))
            del left[gone]
            scene.spool.write([Remove(owner="ann", kind="queue", number=gone)])
        else:
            payload = b"<%05d>" % number * random.choice([1, 5, 30, 90, 300, 900])
            left[scene.append(payload).numbers[0]] = payload
    return set(left.values())


@pytest.mark.parametrize("seed", [0, 8])
def test_nothing_of_removed_entries_is_left_when_it_is_closed(tmp_path: Path, scene: Scene, seed: int) -> None:
    """With the second of these seeds, SQLite 3.40 would leave a copy of one, were the file not written anew."""
    left = {each[:7] for each in scattered(scene, seed)}
    scene.close()
    assert set(re.findall(rb"<\d{5}>", bytes_of(tmp_path / "spool"))) == left


FAULTS = {"begin": "BEGIN", "insert": "INSERT INTO entry", "commit": "COMMIT"}


@pytest.mark.parametrize("statement", FAULTS.values(), ids=FAULTS)
def test_a_failing_disk_refuses_until_it_works(scene: Scene, statement: str, logged: list[str]) -> None:
    scene.claim()
    scene.append(b"before")
    scene.disk.failing = {statement}
    changes = [scene.spool.write([append(b"x")]), scene.spool.write([append(b"y"), append(b"z")])]
    reading = scene.spool.page("ann", "queue")
    for each in changes:
        with pytest.raises(SpoolUnavailable):
            scene.wait(each)
    assert [each.payload for each in scene.wait(reading).entries] == [b"before"]
    assert scene.counters == {"spool-unavailable": 2}
    assert "the spool cannot be written" in str(scene.spool.unavailable)
    assert "disk I/O error" in str(scene.spool.trouble)
    scene.disk.failing.clear()
    # It finds out by itself.
    scene.reactor.run_until(lambda: scene.spool.unavailable is None)
    assert scene.spool.trouble is None
    assert scene.append(b"after").numbers > (1,)
    assert scene.payloads() == [b"before", b"after"]
    assert sum("spool.failing" in each for each in logged) == sum("spool.restored" in each for each in logged) == 1


def test_a_write_that_the_system_refuses(tmp_path: Path, scene: Scene) -> None:
    """In the middle of a commit: files may not get longer."""
    scene.claim()
    scene.append(b"before")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "spool" / f"{NAME}-wal").stat().st_size + 9000, hard))
    try:
        with pytest.raises(SpoolUnavailable):
            scene.append(b"x" * 50_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    scene.reactor.run_until(lambda: scene.spool.unavailable is None)
    scene.append(b"after")
    assert scene.payloads() == [b"before", b"after"]
    scene.close()
    scene.start()
    assert scene.payloads() == [b"before", b"after"]


def test_a_reading_is_refused_when_the_owners_are_not_known(scene: Scene) -> None:
    """To say that nothing is kept would be wrong."""
    scene.claim()
    scene.append(b"kept")
    scene.close()
    scene.start()
    scene.disk.failing = {"SELECT o.owner"}
    for reading in (scene.spool.owner("ann"), scene.spool.page("ann", "queue")):
        with pytest.raises(SpoolUnavailable):
            scene.wait(reading)
    scene.disk.failing.clear()
    scene.reactor.run_until(lambda: scene.spool.unavailable is None)
    assert scene.payloads() == [b"kept"]


@pytest.mark.parametrize("is_failing", [True, False])
def test_what_could_not_expire_does_so_later(scene: Scene, is_failing: bool) -> None:
    scene.claim()
    scene.append(b"x", expires=scene.clock.utc() + 1_000_000)
    if is_failing:
        scene.disk.failing = {"DELETE"}
    scene.advance(1)
    if is_failing:
        scene.reactor.run_until(lambda: scene.spool.unavailable is not None)
        scene.disk.failing.clear()
    scene.reactor.run_until(lambda: scene.counters["spool-expired"])
    owner = scene.wait(scene.spool.owner("ann"))
    assert (owner.kinds, owner.bytes, scene.spool.entries_of("ann")) == ({}, 200, 0)
    assert not +scene.spool.entries


class NearlyFull(Files):
    """:ivar has_room: whether there is."""

    has_room = False

    def free(self, directory: Path) -> tuple[int, int]:
        return (1 << 30 if self.has_room else 100), 1 << 40


def test_the_space_of_the_journal_stays_free(tmp_path: Path, scene: Scene) -> None:
    files = NearlyFull()
    scene.start(space=Space(tmp_path, 1000, scene.clock, files))
    with pytest.raises(SpoolUnavailable, match="the disk gets full"):
        scene.claim()
    assert "--journal-min-free" in str(scene.spool.trouble)
    files.has_room = True
    scene.clock.advance(2)
    scene.claim()
    scene.append(b"x")
    files.has_room = False
    scene.clock.advance(2)
    # What makes room goes on.
    scene.write(RemoveUpTo(owner="ann", kind="queue", number=9))
    with pytest.raises(SpoolUnavailable):
        scene.append(b"y")
    assert scene.payloads() == []


@pytest.mark.processes
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "400k") as directory:
        scene = Scene(directory / "spool")
        scene.claim()
        scene.append(b"before")
        ballast = fill(directory)
        kept = [b"before"]
        with suppress(SpoolUnavailable):
            while True:
                scene.append(b"%d" % len(kept) * 3000)
                kept.append(b"%d" % len(kept) * 3000)
        assert "full" in str(scene.spool.trouble)
        assert scene.payloads() == kept
        ballast.unlink()
        scene.reactor.run_until(lambda: scene.spool.unavailable is None)
        scene.append(b"after")
        scene.close()
        scene.start()
        assert scene.payloads() == [*kept, b"after"]
        scene.close()


def test_too_much_that_waits_is_refused_at_once(scene: Scene) -> None:
    scene.claim()
    waiting = [scene.spool.write([append(b"x" * (MOST_WAITING // 4))]) for _ in range(4)]
    refused = scene.spool.write([append(b"x")])
    with pytest.raises(SpoolUnavailable, match="too slow"):
        scene.wait(refused)
    for each in waiting:
        with pytest.raises(OverLimit):
            scene.wait(each)
    scene.append(b"x")


def test_a_payload_for_many_owners_waits_once(scene: Scene) -> None:
    owners = [str(number) for number in range(100)]
    scene.wait(scene.spool.write([Claim(owner=each, address=ADDRESS, drops_oldest=True) for each in owners]))
    payload = b"x" * (MOST_WAITING // 50)
    waiting = [
        scene.spool.write([Append(owner=each, kind="queue", payload=payload, or_drop=True) for each in owners])
        for _ in range(2)
    ]
    waiting.append(scene.spool.write([append(b"x", "0")]))
    assert [len(scene.wait(each).numbers) for each in waiting] == [100, 100, 1]


def test_closing_writes_what_waits_and_refuses_the_rest(scene: Scene) -> None:
    first = scene.spool.write([Claim(owner="ann", address=ADDRESS), append(b"last")])
    closed: Deferred[None] = scene.spool.close()
    for each in (scene.spool.write([append(b"x")]), scene.spool.page("ann", "queue")):
        with pytest.raises(SpoolUnavailable, match="closed"):
            scene.wait(each)
    scene.wait(first)
    scene.wait(closed)
    scene.start()
    assert scene.payloads() == [b"last"]


def test_a_second_server_is_refused_and_goes_on_after_the_first(made: Make) -> None:
    first, second = made(), made()
    first.claim()
    with pytest.raises(SpoolUnavailable):
        second.claim()
    assert "another server is using the spool" in str(second.spool.trouble)
    first.close()
    second.reactor.run_until(lambda: second.spool.unavailable is None)
    second.append(b"x")


def test_a_spool_that_is_removed_is_noticed(tmp_path: Path, scene: Scene, logged: list[str]) -> None:
    damaged: list[bool] = []
    scene.spool.damage_observers.append(lambda: damaged.append(True))
    scene.claim()
    (tmp_path / "spool" / NAME).unlink()
    with pytest.raises(SpoolUnavailable):
        scene.append(b"x")
    assert (damaged, scene.counters["spool-damaged"]) == ([True], 1)
    with pytest.raises(Refused, match="nothing is kept"):
        scene.append(b"x")
    scene.claim()
    scene.append(b"x")
    assert any("spool.set-aside" in each for each in logged)


def test_entries_in_common_that_were_taken_back_are_found_again() -> None:
    """Also after they were looked for meanwhile, and if an earlier row is there for another owner only."""
    store = SpoolStore(SpoolFile(None).open(), Settings(), lambda: 0)
    store.begin()
    store.apply([Claim(owner=each, address="10.0.0.1") for each in ("ann", "bob")])
    to_all = [
        AppendToAll(owners=("ann", "bob"), kind="queue", heads=(b"", b""), payload=each) for each in (b"1", b"2", b"3")
    ]
    first, second, _ = store.apply(to_all).numbers
    store.apply([Remove(owner="ann", kind="queue", number=first)])
    store.commit()

    def payloads(owner: str) -> list[bytes]:
        return [each.payload for each in store.page(owner, "queue", 0, 9, 99).entries]

    store.begin()
    store.apply([Remove(owner="ann", kind="queue", number=second)])
    assert payloads("ann") == [b"3"]
    store.rollback()
    assert (payloads("ann"), payloads("bob")) == ([b"2", b"3"], [b"1", b"2", b"3"])
