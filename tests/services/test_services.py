"""What the services of the server tell: its registry, its numbers, its time."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bussrv.journal import record
from bussrv.registry.state.state import RegistryState
from bussrv.services.statistics import merge_patch
from tests.bus.harness import RecordingLink
from tests.services.scene import Hosting


def test_the_registry_is_a_snapshot_and_then_journaled_records() -> None:
    network = Hosting()
    early = network.member(**{"routing-id": "ann"})
    early.send({"event": "services/register", "name": "tv"})
    watcher = network.watching("bus/registry")
    (message,) = watcher.messages()
    snapshot = json.loads(message)
    assert snapshot["seq"] == network.journal.records[-1].seq
    assert [session["routing_id"] for session in snapshot["sessions"] if session["protocol"] == "objects"] == ["ann"]
    assert set(snapshot["services"]) == {"bus/clock", "bus/registry", "bus/statistics", "tv"}
    late = network.member(user="bob")
    late.send({"event": "services/register", "name": "radio"})
    late.connection.close()
    network.tick()
    wanted = [record.encode(each).rstrip(b"\n") for each in network.records_after(snapshot["seq"])]
    assert len(wanted) == 6
    assert watcher.messages() == wanted


def test_snapshot_and_updates_have_no_gap_or_repetition() -> None:
    network = Hosting()
    member = network.member()
    network.journal.hold()
    network.connect("objects")
    member.send({"event": "services/register", "name": "tv"})
    watcher = network.watcher()
    watcher.subscribe("bus/registry")
    network.connect("objects").close()
    network.journal.release()
    network.tick()
    snapshot, *updates = watcher.messages()
    numbers = [json.loads(update)["seq"] for update in updates]
    assert numbers == [each.seq for each in network.records_after(json.loads(snapshot)["seq"])]
    assert len(numbers) == 2
    state = RegistryState()
    for each in network.journal.records:
        state.apply(each.event, each.time)
    assert state == network.registry.state


def test_a_member_asks_for_the_state_among_the_updates() -> None:
    """What comes before the reply is in it, and what comes after it is not."""
    network = Hosting()
    member = network.member(types="none", services=["bus/registry"])
    network.udp.subscribe("tv")
    member.send({"event": "services/request", "name": "bus/registry"})
    network.udp.subscribe("radio")
    network.tick()
    said = member.received()
    (place,) = [number for number, (fields, _) in enumerate(said) if fields.get("event") == "services/reply"]
    seq = json.loads(said[place][1])["seq"]
    earlier, later = ([json.loads(payload)["seq"] for _, payload in some] for some in (said[:place], said[place + 1 :]))
    written = network.journal.records
    assert earlier == [each.seq for each in written if each.seq <= seq][-len(earlier) :]
    assert later == [each.seq for each in network.records_after(seq)]
    assert earlier
    assert later


def test_asking_again_sends_the_registry_as_updates_left_it() -> None:
    network = Hosting()
    watcher = network.watching("bus/registry")
    watcher.messages()
    network.member()
    network.tick()
    last = json.loads(watcher.messages()[-1])["seq"]
    watcher.subscribe("bus/registry")
    assert json.loads(watcher.messages()[0])["seq"] == last


def test_statistics_are_followed_by_merge_patches_of_changes() -> None:
    network = Hosting()
    watcher = network.watching("bus/statistics")
    known = json.loads(watcher.messages()[0])
    assert known["sessions"] == {"bus": 1, "spp": 1}
    network.tick(1)
    network.tick()
    assert watcher.messages() == []
    member = network.member()
    member.send({"event": "services/register", "name": "tv"})
    network.tick(1)
    network.tick()
    (patch,) = map(json.loads, watcher.messages())
    assert patch == {"services": 4, "sessions": {"objects": 1}, "subscriptions": 2}
    member.connection.close()
    network.tick(1)
    network.tick()
    (patch,) = map(json.loads, watcher.messages())
    assert patch["sessions"] == {"objects": None}


def test_statistics_count_sessions_that_are_away_apart() -> None:
    network = Hosting()
    watcher = network.watching("bus/statistics")
    assert json.loads(watcher.messages()[0])["away"] == {}
    session = network.bus.open("mqtt", "192.0.2.1:5", RecordingLink({}), expiry=9)
    network.bus.leave(session.id, "connection-lost", 9)
    network.tick(1)
    network.tick()
    (patch,) = map(json.loads, watcher.messages())
    assert patch == {"away": {"mqtt": 1}}


def test_statistics_show_the_ghosts_of_inbus() -> None:
    network = Hosting()
    network.udp.subscribe("tv")
    network.udp.failing = OSError("unreachable")
    network.udp.publish("tv", b"on")
    (message,) = network.watching("bus/statistics").messages()
    shown = json.loads(message)["inbus"]
    assert shown["subscribers"] == 1
    assert shown["ledger"]["10.0.0.2:5000"] == {
        "app_keys": ["tv"],
        "last_heard": "2023-11-14T22:13:20.000000Z",
        "send_errors": 1,
        "unreachables": 0,
        "over_rate": 0,
        "lease_left": 3600,
    }


def test_whoever_comes_later_is_told_what_the_patches_go_on_from() -> None:
    network = Hosting()
    first = network.watching("bus/statistics")
    known = json.loads(first.messages()[0])
    second = network.watching("bus/statistics")
    other = json.loads(second.messages()[0])
    assert other == known
    network.tick(1)
    network.tick()
    (patch,) = map(json.loads, second.messages())
    assert applied(known, patch)["sessions"] == {"bus": 1, "spp": 2}
    assert list(map(json.loads, first.messages())) == [patch]


def test_the_clock_ticks_while_somebody_watches() -> None:
    network = Hosting()
    watcher = network.watching("bus/clock")
    assert watcher.messages() == [b"2023-11-14T22:13:20.000000Z"]
    for _ in range(2):
        network.tick(1)
        network.tick()
    assert watcher.messages() == [b"2023-11-14T22:13:21.000000Z", b"2023-11-14T22:13:22.000000Z"]
    watcher.unsubscribe("bus/clock")
    network.tick(3)
    assert watcher.messages() == []


def applied(target: Any, patch: Any) -> Any:
    """RFC 7396, section 2, word for word."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(result.get(name), value)
    return result


values = st.recursive(
    st.booleans() | st.integers(-3, 3) | st.text(max_size=2) | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


@given(objects, objects)
def test_a_patch_makes_one_of_the_other(before: dict[str, Any], now: dict[str, Any]) -> None:
    patch = merge_patch(before, now)
    assert applied(before, patch) == now
    assert json.dumps(applied(before, patch), sort_keys=True) == json.dumps(now, sort_keys=True)
    assert (patch == {}) == (json.dumps(before, sort_keys=True) == json.dumps(now, sort_keys=True))
