"""Uses, summed up an hour for the journal."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from bussrv import events as ev
from bussrv.bus import uses
from bussrv.policy.permissions.file import parse_policy
from bussrv.why.learning import learn
from bussrv.why.trial import try_policy
from bussrv.why.uses import uses_of
from tests.formats.network import Network
from tests.size import sized
from tests.why.written import begin, write

HOUR = 3600


def used(network: Network) -> list[tuple[str, str, int, int | None]]:
    return [
        (each.action, each.target, each.count, each.suppressed)
        for each in network.events(ev.AccessUsed)
        if isinstance(each, ev.AccessUsed)
    ]


def test_an_hour_is_summed_up_by_user_action_and_target() -> None:
    network = Network(announce="off")
    network.bus.uses.start(network.reactor)
    member = network.member()
    member.send({"event": "services/register", "name": "tv"})
    for _ in range(2):
        member.send({"type": "image/png", "sender": "tv"}, b"x")
        member.send({"type": "text/plain; charset=UTF-8", "to": "ann"})
        member.send({"event": "Door/Opened"})
        member.send({"event": "services/request", "name": "radio", "id": 1})
        network.reactor.advance(1)
    assert used(network) == []
    network.reactor.advance(HOUR)
    found = used(network)
    assert {each[:2] for each in found} == {
        ("publish", "tv"), ("send", "text/plain"), ("address", "ann"), ("send", "@door/opened"), ("request", "radio"),
    }  # fmt: skip
    assert all(count >= 1 for _, _, count, _ in found)
    network.reactor.advance(HOUR)
    assert used(network) == found


def test_each_object_that_is_judged_by_itself_counts() -> None:
    network = Network(announce="off")
    network.bus.uses.start(network.reactor)
    member = network.member()
    number_of = 50
    for number in range(number_of):
        member.send({"event": "open", "to": "door"})
        if number < 3:
            member.send({"event": "services/request", "name": "radio", "service": "tv", "id": number})
            member.connection.send_bytes(b'{"event":"services/request","name":"a","\\u0073ervice":"b"}\0')
    network.reactor.advance(HOUR)
    counts = {(action, target): count for action, target, count, _ in used(network)}
    # Requests may be judged more than once.
    requested = {target for action, target in counts if action == "request" and counts[action, target] >= 3}
    assert requested == {"radio", "tv", "a", "b"}
    assert counts["send", "@open"] == counts["address", "door"] == number_of
    assert len(counts) == 6


def test_what_is_remembered_is_only_of_objects_that_look_alike() -> None:
    network = Network(announce="off")
    network.bus.uses.start(network.reactor)
    sender = network.member()
    door = network.member(**{"routing-id": "door", "types": ["text/plain"]})
    looks: list[tuple[dict[str, object], bytes]] = [
        ({"type": "text/plain"}, b""), ({"type": "text/plain"}, b"x"), ({"type": "image/png"}, b"x"), ({}, b"x"),
        ({"event": "Open"}, b""), ({"event": "open", "type": "image/png"}, b"x"), ({"natures": ["a"]}, b""),
    ]  # fmt: skip
    given: list[list[bool]] = []
    for _ in range(3):
        given.append([])
        for fields, payload in looks:
            door.received()
            sender.send({**fields, "to": "door"}, payload)
            given[-1].append(bool(door.received()))
        for fields, payload in looks[:2]:
            sender.send({**fields, "to": "door"}, payload)
    assert given == 3 * [[True, True, False, False, True, True, False]]
    network.reactor.advance(HOUR)
    counts = {(action, target): count for action, target, count, _ in used(network)}
    assert counts["address", "door"] == 3 * (len(looks) + 2)
    assert counts["send", "text/plain"] == 3 * 4
    assert counts["send", "@open"] == 3 * 2


def test_what_a_session_remembers_ends_with_the_hour() -> None:
    network = Network(announce="off")
    network.bus.uses.start(network.reactor)
    member = network.member()
    for number in (3, 2):
        for _ in range(number):
            for to in ("door", *map(str, range(uses.MOST_COUNTED + 1))):
                member.send({"event": "open", "to": to})
        network.reactor.advance(HOUR)
    counts = [count for action, target, count, _ in used(network) if (action, target) == ("address", "door")]
    assert counts == [3, 2]


def test_long_names_of_strangers_take_little_memory() -> None:
    network = Network(announce="off")
    network.bus.uses.start(network.reactor)
    member = network.member()
    tracemalloc.start()
    for number in range(sized(1_000)):
        member.send({"event": "open", "to": f"{number}" + 50_000 * "x"})
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 1_000 * 2_000
    network.reactor.advance(HOUR)
    assert max(len(target) for _, target, *_ in used(network)) <= 255


def test_what_is_too_much_is_counted_and_short_boots_write_none() -> None:
    network = Network(announce="off", max_services=2 * uses.MOST_USES)
    network.bus.uses.start(network.reactor)
    member = network.member()
    for number in range(uses.MOST_USES + 5):
        member.send({"event": f"e/{number}"})
    network.reactor.advance(HOUR)
    found = used(network)
    assert len(found) == uses.MOST_USES
    assert [each[3] for each in found if each[3] is not None] == [5]
    member.send({"event": "later"})
    network.bus.uses.stop()
    assert used(network)[-1][:2] == ("send", "@later")
    short = Network(announce="off")
    short.bus.uses.start(short.reactor)
    short.member().send({"event": "later"})
    short.bus.uses.stop()
    assert used(short) == []


def test_a_policy_is_learned_from_uses_and_tried_against_them(tmp_path: Path) -> None:
    network = Network(announce="off")
    begin(network)
    network.bus.uses.start(network.reactor)
    member = network.member()
    member.send({"event": "services/register", "name": "tv"})
    member.send({"type": "image/png", "sender": "tv"}, b"x")
    member.send({"event": "door"})
    member.send({"event": "services/request", "name": "radio", "id": 1})
    network.reactor.advance(HOUR)
    journal = write(network, tmp_path)
    text = "\n".join(learn(uses_of(journal)))
    for line in ('publish = ["tv"]', 'send = ["@door"]', 'request = ["radio"]'):
        assert line in text
    formats = ["objects"]
    assert try_policy(parse_policy(text, Path("p.toml"), formats), uses_of(journal)).refusals == []
    strict = parse_policy(text.replace('send = ["@door"]\n', ""), Path("p.toml"), formats)
    assert [(each.action, each.target) for each in try_policy(strict, uses_of(journal)).refusals] == [("send", "@door")]
