"""Trials of policies against journals, and policies that are learned from them."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.policy.permissions.file import parse_policy
from bussrv.policy.permissions.rules import Rules
from bussrv.why.learning import MOST_PATTERNS, learn
from bussrv.why.trial import Trial, try_policy
from bussrv.why.uses import Use, uses_of
from tests.formats.mqtt.peer import MqttPeer
from tests.formats.network import Network
from tests.size import sized
from tests.why.test_agreement import FORMATS, World, steps
from tests.why.written import begin, write


def policy(text: str) -> Rules:
    return parse_policy(text, Path("new.toml"), FORMATS)


def some_day(place: Path) -> tuple[Network, Path]:
    """A member provides a service, a client of MQTT publishes and is subscribed, and a device is."""
    network = Network(announce="off")
    begin(network)
    network.member(services=["lamp"]).send({"event": "services/register", "name": "tv"})
    network.reactor.advance(100)
    MqttPeer(network, "phone").publish("hall/light")
    network.udp.subscribe("tv")
    return network, write(network, place)


def rows(trial: Trial) -> list[tuple[str, str, str, str]]:
    return sorted((each.action, each.target, each.protocol, each.rule) for each in trial.refusals)


def test_each_refusal_is_named_with_its_line(tmp_path: Path) -> None:
    _, journal = some_day(tmp_path)
    members = '[[rule]]\nformats = ["objects"]\nprovide = "!tv"\nwatch = "*"\n'
    strict = policy(f'{members}[[rule]]\nformats = "mqtt"\nwatch = "x"\n')
    trial = try_policy(strict, uses_of(journal))
    assert rows(trial) == [
        ("provide", "tv", "objects", 'new.toml:3: provide = "!tv"'),
        ("publish", "hall/light", "mqtt", "new.toml: no rule for this user allows it"),
        ("watch", "tv", "inbus", "no rule applies to this user"),
    ]
    assert (trial.judged, trial.refused) == (5, {"provide": 1, "publish": 1, "watch": 1})
    assert try_policy(policy('[[rule]]\nprovide = "*"\nwatch = "*"\npublish = "*"\n'), uses_of(journal)).refusals == []


def test_a_trial_looks_at_a_period(tmp_path: Path) -> None:
    network, journal = some_day(tmp_path)
    later = network.journal.records[0].time + 50_000_000
    nothing = policy('[[rule]]\nformats = "spp"\nwatch = "*"\n')
    after = {each.protocol for each in try_policy(nothing, uses_of(journal, since=later)).refusals}
    before = {each.protocol for each in try_policy(nothing, uses_of(journal, until=later)).refusals}
    assert (before, after) == ({"objects"}, {"mqtt", "inbus"})


@settings(max_examples=sized(40, 8))
@given(st.lists(steps.filter(lambda step: step[0] not in ("policy", "leaves")), min_size=3, max_size=10))
def test_a_learned_policy_allows_all_that_was_done(history: list[Any]) -> None:
    world = World()
    for kind, *about in history:
        world.do("cable_" if kind == "cable" else kind, *about)
    with TemporaryDirectory() as place:
        journals = [write(each, Path(place) / name) for name, each in world.fabric.servers.items()]
        learned = policy("\n".join(learn(use for each in journals for use in uses_of(each))))
        for journal in journals:
            assert try_policy(learned, uses_of(journal)).refusals == []


names = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=20)


@given(st.lists(names, min_size=1, max_size=2 * MOST_PATTERNS), st.sampled_from(["", "bus/", "!", "hall/"]))
def test_any_names_are_allowed_again(targets: list[str], beginning: str) -> None:
    """Also if there are so many that one pattern stands for them, or if they read as denials."""
    about = {"user": "ann", "peer": "", "protocol": "objects", "seq": 1, "time": 1}
    uses = [Use(actions=("watch",), target=beginning + each, **about) for each in targets]
    assert try_policy(policy("\n".join(learn(uses))), uses).refusals == []


def test_users_with_the_same_rights_share_a_rule() -> None:
    about = {"peer": "", "protocol": "spp", "seq": 1, "time": 1}
    uses = [Use(user=user, actions=("watch",), target=target, **about) for user in "ab" for target in ("x", "y")]
    assert list(learn(uses)) == ["", "[[rule]]", 'users = ["a", "b"]', 'formats = ["spp"]', 'watch = ["x", "y"]']
