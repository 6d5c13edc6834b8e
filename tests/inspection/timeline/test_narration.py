"""The sentences of a timeline."""

from __future__ import annotations

from typing import Any

from bussrv.events import EVENTS_BY_NAME
from bussrv.inspection.timeline.narration import _WHAT, duration, sentences
from bussrv.inspection.timeline.rows import COLUMNS
from bussrv.journal.record import parse_time
from bussrv.terminal import word
from tests.tables import each_row

AT = parse_time("2026-11-21T14:02:07.000000Z")
SECOND = 1_000_000

TV = {"routing_id": "tv-3", "actor": None, "claimed": None, "peer": "192.0.2.7:4711"}
OTHER = {"routing_id": "tv-4", "actor": "ann", "claimed": "bob", "peer": "192.0.2.8:4711"}


def say(event: str, **fields: Any) -> str:
    row = dict.fromkeys(COLUMNS)
    row |= {"event": event, "moment": AT, "server": "hall", "session": "b1.3", "who": TV}
    row |= {"until": AT + 3600 * SECOND}
    return sentences({**row, **fields}, word)


def gone(**fields: Any) -> str:
    return say("service.unregistered", service="tv/hall", about="tv/hall", **fields)


WHO = "tv-3 (claimed, 192.0.2.7:4711, session b1.3)"


@each_row(
    ("said", "wanted"),
    [
        (
            gone(reason="lease-expired", with_session=True, providers=0),
            (
                f"{WHO} stopped providing tv/hall, because its session ended: nothing was heard within the "
                "lease. Nobody has provided tv/hall since then."
            ),
        ),
        (
            gone(providers=0, missing_until=AT + 12_500_000, next_session="b1.9", next_who=OTHER),
            (
                f"{WHO} stopped providing tv/hall, because it asked for that. Nobody provided tv/hall for 12.5 "
                "s, until ann (claims to be bob, 192.0.2.8:4711, routing id tv-4, session b1.9) did at 2026-11-21 "
                "14:02:19."
            ),
        ),
        (
            gone(
                reason="server-crashed",
                with_session=True,
                crashed_after=AT - 60 * SECOND,
                back_at=AT - SECOND,
                providers=2,
            ),
            (
                f"{WHO} stopped providing tv/hall, because its session ended: the server crashed at 2026-11-21 "
                "14:01:07 or later, and found that when it started again at 2026-11-21 14:02:06. 2 other sessions "
                "provide tv/hall."
            ),
        ),
        (
            gone(reason="link-lost", with_session=True, link="attic", link_reason="connection-lost", providers=1),
            (
                f"{WHO} stopped providing tv/hall, because its session ended: the link to attic was lost (the "
                "connection broke). 1 other session provides tv/hall."
            ),
        ),
        (
            say("session.closed", reason="replaced", newcomer="b1.9", newcomer_who=OTHER, duration=90 * SECOND),
            (
                f"the session of {WHO} ended after 1 min 30 s: replaced by ann (claims to be bob, "
                "192.0.2.8:4711, routing id tv-4, session b1.9)."
            ),
        ),
        (
            say(
                "service.registered", service="tv/hall", about="tv/hall", providers=1, missing_since=AT - 7200 * SECOND
            ),
            f"{WHO} began to provide tv/hall. Nobody had provided tv/hall for 2 h.",
        ),
        (
            say("service.registered", service="tv/hall", about="tv/hall", providers=1),
            f"{WHO} began to provide tv/hall. Nobody provided tv/hall before, as far as the journal goes back.",
        ),
        (
            say("service.refused", service="bus/x", reason="reserved-name", suppressed=12),
            (
                f"{WHO} was refused to register or unregister bus/x: names that read as bus/… or $bus/…, "
                "or as a service or topic of the server itself, belong to it. "
                "12 more like this were left out of the journal before it."
            ),
        ),
        (
            say("server.recovered", session=None, who=None, sessions_closed=1, crashed_after=AT, back_at=AT),
            (
                "the server hall found 1 session that the crash had left open; the last record "
                "before it is of 2026-11-21 14:02:07."
            ),
        ),
        (
            say("session.left", reason="connection-lost", absence_over=AT + 90 * SECOND, resumed=True),
            (
                f"{WHO} left: the connection broke. Its session is kept until 2026-11-21 15:02:07. It came back at "
                "2026-11-21 14:03:37, after 1 min 30 s."
            ),
        ),
        (
            say("session.left", reason="server-crashed", crashed_after=AT - 2 * SECOND, back_at=AT),
            (
                f"{WHO} left: the server crashed at 2026-11-21 14:02:05 or later, and found that when it started again "
                "at 2026-11-21 14:02:07. Its session is kept until 2026-11-21 15:02:07. It has not come back since "
                "then."
            ),
        ),
        (
            say("session.left", absence_over=AT + 3600 * SECOND, resumed=False),
            (
                f"{WHO} left. Its session is kept until 2026-11-21 15:02:07. It did not come back: the session was "
                "closed at 2026-11-21 15:02:07, after 1 h."
            ),
        ),
        (
            say("session.resumed", left_at=AT - 90 * SECOND),
            f"{WHO} came back to its session. It had left at 2026-11-21 14:00:37, and was away for 1 min 30 s.",
        ),
        (
            say("subscription.added", who={**TV, "routing_id": "1b2f9c0d3e4a000000000001"}),
            "192.0.2.7:4711 (routing id 1b2f9c0d3e4a000000000001, session b1.3) subscribed to objects.",
        ),
        (say("auth.succeeded", actor="ann"), f"{WHO} logged in as ann."),
        (say("auth.failed", claimed="ann"), f"{WHO} failed to log in as ann."),
        (say("auth.failed"), f"{WHO} failed to log in."),
        (say("session.identified", claimed="ann", name="tv"), f"{WHO} stated its names: claimed user ann, name tv."),
        (say("subscription.added"), f"{WHO} subscribed to objects."),
        (
            say("session.opened", session="\x1b[2J", who={**TV, "routing_id": "a b"}, protocol="spp", home="attic"),
            (
                '"a b" (claimed, 192.0.2.7:4711, session "\\u001b[2J") opened a session over spp on the linked '
                "server attic."
            ),
        ),
        (
            gone(reason="some-new-code", providers=0),
            f"{WHO} stopped providing tv/hall: some-new-code. Nobody has provided tv/hall since then.",
        ),
        (
            say("access.denied", action="publish", target="tv", rule="policy.toml:12: publish"),
            f'{WHO} was not allowed to publish tv ("policy.toml:12: publish").',
        ),
        (
            say("limit.reached", session=None, who=None, peer="192.0.2.9", limit="max-sessions", value=3),
            "192.0.2.9 reached the limit max-sessions of 3.",
        ),
    ],
)
def test_a_sentence(said: str, wanted: str) -> None:
    assert said == wanted


def test_every_event_that_can_be_about_somebody_has_words() -> None:
    journal_facts = {
        "config.reloaded",
        "config.reload-failed",
        *(name for name in EVENTS_BY_NAME if name.startswith(("journal.", "seal."))),
    }
    assert _WHAT.keys() == EVENTS_BY_NAME.keys() - journal_facts
    for event in EVENTS_BY_NAME:
        assert say(event, service="tv").endswith(".")


@each_row(
    ("seconds", "wanted"),
    [
        (0.0125, "0.0125 s"),
        (59.94, "59.9 s"),
        (59.99, "1 min"),
        (61.0, "1 min 1 s"),
        (3599.9, "1 h"),
        (172_800.0, "2 days"),
        (180_000.0, "2 days 2 h"),
    ],
)
def test_a_duration(seconds: float, wanted: str) -> None:
    assert duration(seconds) == wanted
