"""Durable sessions that are away: shown as such, not as slow ones, and closed by an operator."""

from __future__ import annotations

from bussrv.journal.record import format_time
from bussrv.values import Traffic
from tests.admin.scene import BEARER, Admin
from tests.bus.harness import RecordingLink

HOUR = 3600 * 1_000_000


class DurableLink(RecordingLink):
    """Keeps what is sent while its client is away."""

    waiting = 700

    def __init__(self, admin: Admin) -> None:
        super().__init__({})
        self._admin = admin
        session = admin.bus.open("mqtt", "192.0.2.1:5", self, expiry=HOUR, actor="ann")
        self.session_id = session.id

    def close(self, reason: str) -> None:
        self._admin.bus.close(self.session_id, reason, Traffic())


def test_a_session_that_is_away_is_shown_as_such() -> None:
    admin = Admin()
    client, link = admin.client(), DurableLink(admin)
    path = f"/api/v1/sessions/{link.session_id}"
    shown = client.ask(path).json
    assert (shown["state"], shown["away_since"], shown["kept_until"]) == ("open", None, None)
    since = admin.bus.utc()
    admin.bus.leave(link.session_id, "connection-lost", since + HOUR)
    away = {"state": "away", "away_since": format_time(since), "kept_until": format_time(since + HOUR)}
    (item,) = client.ask("/api/v1/sessions?state=away").json["items"]
    for shown in (item, client.ask(path).json):
        assert {name: shown[name] for name in away} == away
        assert shown["waiting_messages"] == 0
        assert (shown["session"], shown["persistent"], shown["waiting_bytes"]) == (link.session_id, True, 700)
    admin.registry.subscribe(link.session_id, "tv")
    (subscriber,) = client.ask("/api/v1/services/tv").json["subscribers"]
    assert {name: subscriber[name] for name in away} == away


def test_messages_that_wait_for_a_session_are_counted() -> None:
    """In lists, in the views of the session and of a service that it is subscribed to, and by kind in the metrics."""
    admin = Admin()
    client, link = admin.client(), DurableLink(admin)
    admin.bus.queued[link.session_id] = lambda: 7
    admin.registry.subscribe(link.session_id, "tv")
    (item,) = client.ask("/api/v1/sessions?state=open").json["items"]
    (subscriber,) = client.ask("/api/v1/services/tv").json["subscribers"]
    shown = [item, client.ask(f"/api/v1/sessions/{link.session_id}").json, subscriber]
    assert [each["waiting_messages"] for each in shown] == [7, 7, 7]
    admin.bus.spool.entries.update({"mqtt": 8, "mqtt-will": 1})
    lines = client.ask("/metrics").body.decode().splitlines()
    assert [each for each in lines if each.startswith("bussrv_spool_entries{")] == [
        'bussrv_spool_entries{kind="mqtt"} 8.0',
        'bussrv_spool_entries{kind="mqtt-will"} 1.0',
    ]


def test_a_session_that_is_away_is_not_slow() -> None:
    admin = Admin()
    client, link = admin.client(), DurableLink(admin)
    assert client.ask("/api/v1/slow").json["total"] == 1
    admin.bus.leave(link.session_id, "connection-lost", HOUR)
    assert client.ask("/api/v1/slow").json["total"] == 0


def test_a_session_that_is_away_is_counted_as_such() -> None:
    admin = Admin()
    client, link = admin.client(), DurableLink(admin)
    counted = []
    for step in (
        lambda: None,
        lambda: admin.bus.leave(link.session_id, "connection-lost", HOUR),
        lambda: admin.registry.resume_session(link.session_id, "192.0.2.1:6", HOUR),
    ):
        step()
        found = client.ask("/api/v1/counters").json
        counted.append((found["sessions"], found["away"], found["far"]))
    assert counted == [({"mqtt": 1}, {}, 0), ({}, {"mqtt": 1}, 0), ({"mqtt": 1}, {}, 0)]


def test_an_operator_closes_a_session_that_is_away() -> None:
    admin = Admin()
    client, link = admin.client(), DurableLink(admin)
    admin.bus.leave(link.session_id, "connection-lost", HOUR)
    assert client.ask(f"/api/v1/sessions/{link.session_id}", "DELETE", **BEARER).status == 204
    assert link.session_id not in admin.registry.state.sessions
    assert client.ask("/api/v1/counters").json["away"] == {}
