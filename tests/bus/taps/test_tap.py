"""One tap: which objects pass its filter, and what it skips when its reader is slow."""

from typing import Any

from bussrv.bus.taps.tap import MOST_ANSWERS, TOLD_AFTER
from tests.bus.taps.scene import Scene, kinds, opened, sent, taken
from tests.tables import each_row


@each_row(
    ("wanted", "shown"),
    [
        ({}, ["text/plain", "@note", "image/png", "@to", "text/css"]),
        ({"type": "text/*"}, ["text/plain", "text/css"]),
        ({"type": "TEXT/plain"}, ["text/plain"]),
        ({"type": "@*"}, ["@note", "@to"]),
        ({"type": "@Note"}, ["@note"]),
        ({"format": "business"}, ["@note", "@to"]),
        ({"format": "spp"}, []),
        ({"service": "tv"}, ["text/plain", "text/css"]),
        ({"service": "t*"}, ["text/plain", "text/css"]),
        ({"service": "radio"}, []),
        ({"session": "page"}, ["image/png", "@to"]),
        ({"session": "maker", "type": "*css"}, ["text/css"]),
        ({"session": "nobody"}, []),
        ({"sample": 2}, ["@note", "@to"]),
        ({"sample": 6}, []),
        ({"rate": 2}, ["text/plain", "@note"]),
        ({"sample": 2, "rate": 1}, ["@note"]),
    ],
)
def test_filters_choose(wanted: dict[str, Any], shown: list[str]) -> None:
    scene = Scene()
    tap = opened(scene.network, **wanted)
    scene.maker.send({"type": "text/plain; charset=UTF-8"})
    scene.office.send({"event": "note"})
    scene.page.send({"type": "image/png"})
    scene.office.send({"event": "to", "to": ["x", "page"]})
    scene.maker.send({"type": "text/css"})
    scene.network.reactor.advance(0)
    assert [kind.partition(";")[0] for kind in kinds(tap)] == shown


def test_a_session_is_named_by_its_id_too() -> None:
    scene = Scene()
    (office,) = (each.id for each in scene.network.registry.state.sessions.values() if each.routing_id == "office")
    tap = opened(scene.network, session=office)
    scene.maker.send({"event": "other"})
    scene.office.send({"event": "note"})
    assert kinds(tap) == ["@note"]


def test_an_unread_tap_holds_little_and_is_told_what_it_lost() -> None:
    scene = Scene(max_outbound=1 << 30)
    tap = opened(scene.network, most=1000, rate=1000, payload=True)
    told: list[None] = []
    tap.news().addCallback(told.append)
    sent(scene.maker, 500, b"x" * 100)
    assert told == [None]
    found, skipped = taken(tap), tap.take_skipped()
    assert 0 < len(found) < 10
    assert len(found) + skipped == 500
    assert tap.take_skipped() == 0
    assert len(scene.office.received()) == 500, "nobody else lost anything"


def test_beyond_the_rate_objects_are_skipped_for_that_second() -> None:
    scene = Scene()
    tap = opened(scene.network, rate=10)
    sent(scene.maker, 30)
    assert (len(taken(tap)), tap.shown, tap.skipped_so_far) == (10, 10, 20)
    told: list[None] = []
    tap.news().addCallback(told.append)
    scene.network.reactor.advance(TOLD_AFTER / 2)
    assert told == []
    scene.network.reactor.advance(TOLD_AFTER / 2)
    assert told == [None]
    assert tap.news().called, "whoever was not waiting then is told later"
    assert tap.take_skipped() == 20
    assert not tap.news().called
    sent(scene.maker, 30)
    assert len(taken(tap)) == 10


def test_kinds_that_clients_make_up_take_no_memory_for_ever() -> None:
    scene = Scene()
    tap = opened(scene.network, type="image/*")
    for number in range(MOST_ANSWERS + 10):
        scene.office.send({"event": f"e{number}"})
    scene.office.send({"event": "e" * 10_000})
    assert len(tap._answers) <= MOST_ANSWERS
    assert all(len(event or "") < 300 for event, _, _ in tap._answers)
    assert kinds(tap) == []
