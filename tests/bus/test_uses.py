"""Uses, summed up an hour for the journal."""

from __future__ import annotations

from pathlib import Path

from bussrv import events as ev
from bussrv.bus import uses
from bussrv.policy.permissions.file import parse_policy
from bussrv.why.learning import learn
from bussrv.why.trial import try_policy
from bussrv.why.uses import uses_of
from tests.formats.network import Network
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
