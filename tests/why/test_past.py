"""Only the records that a moment depends on are read: what is known of it is as if all were."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from bussrv import events as ev
from bussrv.cli.main import main
from bussrv.errors import JournalError
from bussrv.journal.chain import START
from bussrv.journal.header import Header, Part, encode_header, encode_part
from bussrv.journal.moments import END, Moment
from bussrv.journal.record import Record, encode
from bussrv.journal.segment import segment_name
from bussrv.registry.state.fold import RegistryFold
from bussrv.values import ModeInterest
from bussrv.why.past import Past, past_of
from bussrv.why.records import SegmentText
from tests.size import sized

SECOND = 1_000_000
BEGIN = 1_795_269_723 * SECOND
ALL = ModeInterest("all", None)
LATER = ("later", "opened_later")

steps = st.tuples(
    st.sampled_from(["open", "open", "close", "identify", "want", "unwant", "provide", "deny", "link"]),
    st.integers(0, 5),
    # Clocks are set back, too.
    st.integers(-40, 40),
)
moments = st.one_of(
    st.just(END),
    st.builds(Moment, seq=st.integers(1, 60)),
    st.builds(Moment, time=st.integers(-60, 200).map(lambda each: BEGIN + each * SECOND)),
)


def events_of(history: list[tuple[str, int, int]]) -> list[tuple[int, ev.Event]]:
    """What a server writes of sessions that come and go, with times."""
    time, numbers, open_ = BEGIN, count(1), dict[int, str]()
    found: list[tuple[int, ev.Event]] = []
    for kind, slot, step in history:
        time += step * SECOND
        if kind == "open" and slot not in open_:
            open_[slot] = f"boot.{next(numbers)}"
            found.append((time, ev.SessionOpened(session=open_[slot], routing_id=open_[slot], protocol="objects")))
            continue
        if slot not in open_:
            continue
        session = open_[slot]
        event: dict[str, ev.Event] = {
            "close": ev.SessionClosed(session=session, reason="client-closed", duration=1),
            # A text of a stranger may look like a part of a record.
            "identify": ev.SessionIdentified(session=session, name='","event":"session.closed","session":"boot.1"'),
            "want": ev.SubscriptionAdded(session=session, interest=ALL, options={"session": "boot.1"}),
            "unwant": ev.SubscriptionRemoved(session=session, reason="unsubscribed"),
            "provide": ev.ServiceRegistered(session=session, service="tv"),
            "deny": ev.AccessDenied(session=session, action="watch", target="tv", rule="policy.toml:1"),
            "link": ev.LinkUp(session=session, routing_id=f"server-{slot}"),
        }
        found.append((time, event.get(kind, event["want"])))
        if kind == "close":
            del open_[slot]
    return found


def write(directory: Path, history: list[tuple[str, int, int]], split: int) -> None:
    """Write a journal of two segments; the second begins with the registry before it."""
    written = events_of(history)
    fold = RegistryFold()
    for begin, some in ((0, written[:split]), (split, written[split:])):
        if begin and not some:
            break
        parts = fold.states()
        time = some[0][0] if some else BEGIN
        header = Header(prev=START, segment=begin + 1, parts=len(parts), time=time, server="hall", boot="boot")
        lines = [encode_header(header)]
        lines += [encode_part(Part(START, begin + 1, index, Raw(each))) for index, each in enumerate(parts, 1)]
        for seq, (at, event) in enumerate(some, begin + 1):
            lines.append(encode(Record(seq, at, 1, "hall", "boot", event)))
            fold.apply(event, at)
        (directory / segment_name(begin + 1)).write_bytes(b"".join(lines))


def known(place: Path, moment: Moment, window: float) -> dict[str, Any] | str:
    """What is known of a moment, of the sessions that were present or had just ended; or what is wrong with it."""
    try:
        found = past_of(place, moment, window)
    except JournalError as error:
        return str(error)
    sessions = {*found.state.sessions, *(each.session.id for each in found.ended)}

    def of_these(notes: dict[Any, Any]) -> dict[Any, Any]:
        return {key: each for key, each in notes.items() if (key if isinstance(key, str) else key[0]) in sessions}

    return {
        name: of_these(each) if isinstance(each := getattr(found, name), dict) and name not in LATER else each
        for name in Past.__struct_fields__
    }


def every_line(text: SegmentText, *_: object) -> Iterable[int] | None:
    """In the place of those that a moment depends on."""
    return None


NAMES_ANOTHER = [("open", 0, 0), ("open", 1, 0), ("want", 1, 0), ("close", 0, 1), ("open", 2, 40)]
ENDS_IN_THE_SECOND = [("open", 0, 0), ("close", 0, 1), ("open", 1, 40)]
CLOCK_IS_SET_BACK = [("open", 0, 0), ("open", 1, 40), ("close", 0, -40), ("open", 2, 80)]


@settings(max_examples=sized(300, 30))
@example(NAMES_ANOTHER, 0, END, 0)
@example(ENDS_IN_THE_SECOND, 1, END, 0)
@example(CLOCK_IS_SET_BACK, 0, Moment(seq=2), 0)
@example(CLOCK_IS_SET_BACK, 0, Moment(time=BEGIN + 40 * SECOND), 0)
@given(st.lists(steps, max_size=60), st.integers(0, 40), moments, st.sampled_from([0, 30, 60]))
def test_what_is_skipped_changes_nothing(
    history: list[tuple[str, int, int]], split: int, moment: Moment, window: float
) -> None:
    with TemporaryDirectory() as name:
        place = Path(name)
        write(place, history, split)
        found = known(place, moment, window)
        with patch.object(SegmentText, "lines_about", every_line):
            assert found == known(place, moment, window)


def test_days_that_were_made_up_are_known_as_well(tmp_path: Path) -> None:
    """Of several wire formats, with crashes, links and durable sessions."""
    journal = tmp_path / "journal"
    assert main(["journal", "synth", str(journal), "--events", "3000"]) == 0
    for moment in (Moment(seq=700), Moment(seq=2400), END):
        found = known(journal, moment, 60)
        with patch.object(SegmentText, "lines_about", every_line):
            assert found == known(journal, moment, 60)
