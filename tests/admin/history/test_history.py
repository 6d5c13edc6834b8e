"""The history of a server: sampled, kept over restarts, and answered over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import execute

from bussrv import events as ev
from bussrv.admin.history.history import SAVED, History
from tests.admin.scene import Admin, Client
from tests.formats.network import Member


def begin(scene: Admin, path: Path | None = None) -> History:
    """Begin the history of a server, whose file is written at once."""
    history = scene.site.shared.history
    history.path = path
    history._off_thread = lambda function, *arguments: execute(function, *arguments)
    history.start()
    return history


def member(scene: Admin, name: str) -> Member:
    return scene.member(**{"routing-id": name})


def asked(client: Client, query: str = "") -> Any:
    answer = client.ask(f"/api/v1/history{query}")
    assert answer.status == 200, answer.body
    return answer.json


def seconds(found: Any) -> list[str]:
    return [each[17:19] for each in found["times"]]


def test_figures_of_each_second_are_answered() -> None:
    scene = Admin()
    begin(scene)
    client = member(scene, "tv")
    scene.pass_time(3)
    client.send({"type": "text/plain"}, b"x" * 3)
    scene.pass_time(2)
    found = asked(scene.client())
    assert found["interval"] == 1
    assert found["figures"]["sessions"] == [1.0] * 5
    assert sum(found["figures"]["objects_in"]) >= 1
    assert [each["kind"] for each in found["marks"]] == ["started"]


def test_denials_and_reloads_are_told() -> None:
    scene = Admin()
    begin(scene)
    scene.pass_time(1)
    scene.registry.note(ev.AccessDenied(action="publish", target="tv", rule="1", suppressed=3))
    scene.registry.note(ev.ConfigReloaded())
    scene.registry.note(ev.ConfigReloadFailed(message="no"))
    scene.pass_time(2)
    found = asked(scene.client())
    assert sum(found["figures"]["denials"]) == 4
    assert [each["kind"] for each in found["marks"]] == ["started", "reloaded", "reload-failed"]


def test_a_restart_is_a_mark_and_leaves_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "journal.history"
    before = Admin()
    history = begin(before, path)
    before.pass_time(5)
    assert history.stop().called
    after = Admin()
    after.reactor.advance(60)
    begin(after, path)
    after.pass_time(3)
    found = asked(after.client())
    assert seconds(found) == ["21", "22", "23", "24", "25", "21", "22", "23"]
    assert found["seconds"] == [1.0] * 8
    assert [each["kind"] for each in found["marks"]] == ["started", "started"]


def test_a_server_that_is_killed_has_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "journal.history"
    before = Admin()
    begin(before, path)
    before.pass_time(SAVED + 100)
    after = Admin()
    after.reactor.advance(SAVED + 200)
    begin(after, path)
    found = asked(after.client())
    assert len(found["times"]) == SAVED - 1


def test_a_damaged_file_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "journal.history"
    path.write_bytes(b"bussrv-history 2 00000000\nx")
    scene = Admin()
    history = begin(scene, path)
    scene.pass_time(2)
    assert seconds(asked(scene.client())) == ["21", "22"]
    history.stop()
    again = Admin()
    again.reactor.advance(10)
    begin(again, path)
    assert seconds(asked(again.client())) == ["21", "22"]


def test_the_clock_that_is_set_is_a_mark() -> None:
    scene = Admin()
    begin(scene)
    scene.pass_time(5)
    utc = scene.bus.utc
    scene.bus.utc = lambda: utc() - 3_000_000
    scene.pass_time(2)
    found = asked(scene.client())
    assert [each["kind"] for each in found["marks"]] == ["started", "clock-set"]
    assert found["times"] == sorted(set(found["times"]))


def test_a_long_range_has_longer_intervals() -> None:
    scene = Admin()
    begin(scene)
    scene.pass_time(700)
    client = scene.client()
    assert asked(client, "?since=-600")["interval"] == 1
    whole = asked(client, "?since=-3600")
    assert whole["interval"] == 10
    assert sum(whole["seconds"]) == 700
    few = asked(client, "?since=-500&points=7")
    assert len(few["times"]) <= 8
    assert sum(few["seconds"]) == 500


def test_a_range_is_given_by_times_of_any_precision() -> None:
    scene = Admin()
    begin(scene)
    scene.pass_time(10)
    found = asked(scene.client(), "?since=2023-11-14T22:13:22Z&until=2023-11-14T22:13:25.5Z")
    assert seconds(found) == ["23", "24", "25"]


BAD = ("since=-0", "since=yesterday", "points=0", "since=-10&until=-20", "since=2023-02-30T00:00:00Z")


@pytest.mark.parametrize("query", [f"?{each}" for each in BAD])
def test_a_range_that_is_none_is_refused(query: str) -> None:
    assert Admin().client().ask(f"/api/v1/history{query}").code == "bad-parameter"


def test_the_busiest_are_found_by_any_column() -> None:
    scene = Admin()
    begin(scene)
    busy, calm = member(scene, "tv"), member(scene, "lamp")
    for _ in range(5):
        busy.send({"type": "text/plain"}, b"x")
    calm.send({"type": "text/plain"}, b"y" * 5_000)
    scene.pass_time(11)
    client = scene.client()
    by_bytes = client.ask("/api/v1/busiest/sessions?sort=-bytes_in").json["items"]
    by_objects = client.ask("/api/v1/busiest/sessions?sort=-objects_in").json["items"]
    assert [each["name"] for each in by_bytes] == ["lamp (claimed)", "tv (claimed)"]
    assert [each["name"] for each in by_objects] == ["tv (claimed)", "lamp (claimed)"]
    listed = client.ask("/api/v1/sessions?sort=-bytes_per_second").json["items"]
    assert [each["routing_id"] for each in listed] == ["lamp", "tv"]
    assert listed[0]["bytes_per_second"] > 500


def test_the_traffic_of_one_of_the_busiest_has_a_history() -> None:
    scene = Admin()
    begin(scene)
    tv = member(scene, "tv")
    scene.pass_time(10)
    for _ in range(20):
        tv.send({"type": "text/plain"}, b"x")
    scene.bus.service_traffic.add("hall/tv", 5, 50)
    scene.pass_time(11)
    client = scene.client()
    (session,) = [each for each in scene.registry.state.sessions.values() if each.routing_id == "tv"]
    found = asked(client, f"?session={session.id}")
    sent = zip(found["figures"]["objects_in"], found["seconds"], strict=True)
    assert [round(rate * length) for rate, length in sent] == [1, 20]
    found = asked(client, "?service=hall/tv")
    assert found["figures"] == {"objects": [None, 0.5], "bytes": [None, 5.0]}
    assert asked(client, "?service=nobody")["figures"]["objects"] == [None, None]
    assert client.ask("/api/v1/history?service=a&session=b").code == "bad-parameter"


def test_a_short_session_counts_for_the_busiest() -> None:
    scene = Admin()
    history = begin(scene)
    scene.registry.note(
        ev.SessionClosed(duration=1, objects_in=7, bytes_in=70, session="s.1", actor="joe", protocol="spp")
    )
    scene.pass_time(11)
    (row,) = history.sessions.latest.values()
    assert (row.about, row.objects, row.bytes) == (("s.1", "joe", "spp", ""), (7, 0), (70, 0))


def test_publications_count_for_their_service() -> None:
    scene = Admin()
    begin(scene)
    scene.bus.service_traffic.add("tv", 3, 30)
    scene.pass_time(11)
    (item,) = scene.client().ask("/api/v1/busiest/services").json["items"]
    assert item == {"service": "tv", "objects": 3, "bytes": 30}
