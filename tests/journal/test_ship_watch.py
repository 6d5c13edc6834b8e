"""What a server makes of the file that says how far its journal is shipped."""

import pytest
from msgspec.structs import replace
from twisted.logger import capturedLogs

from bussrv.journal.batch import Rotation
from bussrv.journal.manifest import MANIFEST_NAME, last_seq
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.shipped import SHIPPED_NAME, Shipped, write_shipped
from bussrv.journal.upkeep import UpkeepPolicy
from tests.journal.kept import Kept, pruned, segments
from tests.journal.support import FakeClock

EACH = Rotation(bytes=1)
DAY = 86_400
WAITING = UpkeepPolicy(retain_age=1.5 * DAY, retain_shipped=True, ship_within=600.0)


def ship(directory, number, digest=None):
    """Say that a segment and all before it are shipped."""
    seal = read_manifest(directory / MANIFEST_NAME).seals[number]
    shipped = Shipped(
        url="s3://archive/hall", segment=number, digest=digest or seal.digest, last_seq=last_seq(seal), time="now"
    )
    write_shipped(directory, shipped)


def days(directory, *names, clock=None, policy=WAITING):
    """A journal with a segment for each day. Its server runs on, and the clock is a day later."""
    kept = Kept(directory, rotation=EACH, policy=policy, clock=clock)
    for name in names:
        kept.write(name)
        kept.clock.advance(DAY)
    return kept


def look(kept):
    for _ in range(4):
        kept.idle(1)


def test_retention_waits_for_what_is_not_shipped(tmp_path):
    kept = days(tmp_path, "monday", "tuesday", "wednesday")
    look(kept)
    assert (segments(tmp_path), pruned(tmp_path)) == ([1, 2, 3], [])
    ship(tmp_path, 1)
    look(kept)
    assert pruned(tmp_path) == [1]
    kept.end()
    # The next boot believes the same file.
    kept = Kept(tmp_path, clock=kept.clock, rotation=EACH, policy=WAITING)
    kept.idle(DAY)
    assert pruned(tmp_path) == [1]
    ship(tmp_path, 3)
    look(kept)
    assert pruned(tmp_path)[:3] == [1, 2, 3]


@pytest.mark.parametrize("content", [b"", b"{", b'{"v":1}', b"other"])
def test_a_file_that_says_nothing_of_this_journal_counts_not(tmp_path, content):
    kept = days(tmp_path, "monday", "tuesday", "wednesday")
    ship(tmp_path, 3, digest="0" * 64)
    if content != b"other":
        (tmp_path / SHIPPED_NAME).write_bytes(content)
    look(kept)
    assert pruned(tmp_path) == []


def test_without_the_option_retention_waits_for_nothing(tmp_path):
    kept = days(tmp_path, "monday", "tuesday", "wednesday", policy=replace(WAITING, retain_shipped=False))
    look(kept)
    assert pruned(tmp_path)[:1] == [1]
    assert kept.upkeep.watch.condition is None
    number = segments(tmp_path)[-1]
    ship(tmp_path, number)
    look(kept)
    assert kept.upkeep.watch.condition is not None


def test_what_is_late_is_said_once_and_so_is_the_end(tmp_path):
    kept = Kept(tmp_path, rotation=EACH, policy=replace(WAITING, retain_age=None))
    with capturedLogs() as logs:
        kept.write("a")
        kept.idle(1)
        kept.idle(500)
        found = kept.upkeep.watch.condition
        assert (found.segments, found.trouble, found.is_held) == (1, None, False)
        assert 500 <= found.oldest <= 502
        kept.write("b")
        for _ in range(3):
            kept.idle(200)
        found = kept.upkeep.watch.condition
        assert (found.segments, found.is_held) == (2, False)
        assert found.bytes == sum(seal.bytes for seal in read_manifest(tmp_path / MANIFEST_NAME).closed())
        assert "2 closed segments are not shipped" in found.trouble
        ship(tmp_path, 1)
        kept.idle(1)
        # The second one is late, too.
        assert "1 closed segment is not shipped" in kept.upkeep.watch.condition.trouble
        ship(tmp_path, 2)
        kept.idle(1)
        assert kept.upkeep.watch.condition == type(found)(0, 0, 0.0, False, None)
        kept.idle(DAY)
    told = [each["log_system"] if "event" not in each else each["event"] for each in logs]
    assert [each for each in told if "shipped" in each] == ["journal.not-shipped", "journal.shipped-again"]


def test_a_segment_is_as_old_as_its_end(tmp_path):
    """Its last record may be much older."""
    kept = Kept(tmp_path, rotation=Rotation(age=3600.0), policy=replace(WAITING, retain_age=None))
    kept.write("a")
    kept.idle(3000)
    kept.idle(700)
    kept.idle(1)
    found = kept.upkeep.watch.condition
    assert (found.segments, found.trouble) == (1, None)
    assert found.oldest < 10


def test_retention_that_waits_is_said_at_once(tmp_path):
    kept = days(tmp_path, "monday", "tuesday", "wednesday", policy=replace(WAITING, ship_within=1e9))
    with capturedLogs() as logs:
        look(kept)
    found = kept.upkeep.watch.condition
    assert found.is_held
    assert "retention waits for that, so that the disk fills" in found.trouble
    assert [each["event"] for each in logs if "event" in each].count("journal.not-shipped") == 1
    ship(tmp_path, 3)
    look(kept)
    assert not kept.upkeep.watch.condition.is_held
    assert kept.upkeep.watch.condition.trouble is None


@pytest.mark.parametrize("is_required", [True, False])
def test_a_file_that_cannot_be_read_is_trouble(tmp_path, is_required):
    (tmp_path / SHIPPED_NAME).mkdir()
    kept = days(tmp_path, "monday", "tuesday", policy=replace(WAITING, retain_shipped=is_required))
    look(kept)
    assert f"cannot read {tmp_path / SHIPPED_NAME}" in kept.upkeep.watch.condition.trouble
    assert bool(pruned(tmp_path)) is not is_required


@pytest.mark.parametrize("years", [-1, 1])
def test_a_clock_that_is_set_makes_nothing_late(tmp_path, years):
    kept = Kept(tmp_path, rotation=EACH, policy=replace(WAITING, retain_age=None))
    kept.write("a")
    kept.idle(100)
    kept.clock.now_utc += years * 365 * DAY * 1_000_000
    kept.write("b")
    kept.idle(100)
    kept.idle(1)
    found = kept.upkeep.watch.condition
    assert (found.segments, found.trouble) == (2, None)
    assert found.oldest < 300
    kept.end()
    # An earlier boot ended an hour ago.
    clock = FakeClock(kept.clock.now_utc, 0)
    clock.advance(3600)
    kept = Kept(tmp_path, clock=clock, rotation=EACH, policy=replace(WAITING, retain_age=None))
    kept.idle(1)
    assert kept.upkeep.watch.condition.oldest >= 3600
