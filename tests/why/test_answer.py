"""The reasons that ``why`` gives, each with the record that made it so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.errors import JournalError
from bussrv.journal.moments import END, Moment
from bussrv.policy.permissions.file import parse_policy
from bussrv.values import Traffic
from bussrv.why.answer import Answer, Verdict, answer
from bussrv.why.past import past_of
from bussrv.why.question import Question, about_object, about_publication, about_request
from tests.bus.links.fabric import Fabric
from tests.formats.mqtt.peer import MqttPeer
from tests.formats.network import Network
from tests.why.written import begin, reload, write

NO_ASKING = '[[rule]]\nprovide = "*"\nsend = "*"\nobserve = "*"\nrequest = "!tv"\n'
POLICY = '[[rule]]\nprovide = "*"\nsend = "*"\nobserve = "*"\nwatch = ["!lamp", "*"]\npublish = ["!door", "*"]\n'


def ask(network: Network, place: Path, question: Question, at: Moment = END, to: str | None = None) -> Answer:
    return answer([past_of(write(network, place), at)], question, to)


def only(found: Answer) -> Verdict:
    (verdict,) = found.sessions
    return verdict


def last(network: Network) -> int:
    return network.journal.records[-1].seq


def test_each_reason_names_the_record_that_made_it_so(tmp_path: Path) -> None:
    network = Network(announce="off")
    begin(network)
    seqs: dict[str, int] = {}
    for name, subscription in {
        "all": {},
        "text": {"types": ["text/*"]},
        "events": {"receive": "events_only"},
        "none": {"receive": "none"},
        "rules": {"subscriptions": ["*", "!image/*"]},
    }.items():
        network.member(**{"name": name, **subscription})
        seqs[name] = last(network)
    network.udp.publish("tv", b"x")
    network.watcher().subscribe("tv")
    assert isinstance(network.journal.records[-1].event, ev.SubscriptionAdded)
    found = ask(network, tmp_path, about_object('{"type":"image/png"}'))
    said = {each.name or each.protocol: each for each in found.sessions}
    assert said["spp"].reason == "no-publication"
    rows = [
        ("all", "yes", "interest", "it wants this: receives everything"),
        ("text", "no", "types", "its types text/* do not match image/png"),
        ("events", "no", "events-only", "it receives events only"),
        ("none", "no", "receives-nothing", "it receives nothing"),
        ("rules", "no", "rules", "its rules *, !image/* do not let it pass"),
    ]

    for name, *wanted in rows:
        each = said[name]
        assert (each.answer, each.reason, each.why, each.seq) == (*wanted, seqs[name])
    assert [each.seq for each in found.moments] == [last(network)]


def test_policy_lines_decide_as_they_stood_at_the_moment(tmp_path: Path) -> None:
    network = Network(announce="off")
    begin(network)
    network.member(name="ann", services=["lamp"])
    before = last(network)
    network.bus.access.policy = parse_policy(POLICY, Path("policy.toml"), ["objects", "mqtt"])
    reload(network)
    changed = last(network)
    peer = MqttPeer(network, "lamp")
    peer.publish("lamp")
    lamp = about_publication("lamp", sender=peer.session_id)
    verdict = only(ask(network, tmp_path, lamp, to="ann"))
    assert (verdict.answer, verdict.reason, verdict.seq) == ("no", "policy", changed)
    assert verdict.why == 'not allowed: policy.toml:5: watch = "!lamp"'
    assert only(ask(network, tmp_path, about_publication("lamp"), Moment(seq=before), "ann")).answer == "yes"
    refused = ask(network, tmp_path, about_publication("door", sender="lamp"), to="ann")
    assert refused.sender.refused == 'policy.toml:6: publish = "!door"'
    assert only(refused).reason == "refused"


def test_who_went_and_who_came_is_told_with_how_long_it_was(tmp_path: Path) -> None:
    network = Network(announce="off")
    begin(network)
    slow = network.member(name="slow")
    session_id = slow.connection.protocol.session_id
    network.reactor.advance(1)
    network.bus.close(session_id, "slow-consumer", Traffic())
    closed = last(network)
    network.reactor.advance(0.4)
    network.udp.publish("tv", b"x")
    watcher = network.watcher()
    moment = last(network)
    network.reactor.advance(2)
    watcher.subscribe("tv")
    subscribed = last(network)
    network.member(name="late")
    found = ask(network, tmp_path, about_publication("tv"), Moment(seq=moment))
    said = {each.reason: each for each in found.sessions if each.protocol != "inbus"}
    assert (said["closed"].why, said["closed"].seq) == ("closed as slow-consumer 0.4 s earlier", closed)
    waiting = said["not-subscribed"]
    assert (waiting.why, waiting.seq) == (f"not subscribed to 'tv' until record {subscribed}", subscribed)
    assert said["not-there"].why == "opened only 2.0 s later"


def test_requests_are_for_providers_in_turn(tmp_path: Path) -> None:
    network = Network(announce="off")
    begin(network)
    first = network.member(name="first")
    first.send({"event": "services/register", "name": "tv"})
    registered = last(network)
    one = {each.name: each for each in ask(network, tmp_path, about_request("tv")).sessions}
    assert (one["first"].answer, one["first"].why, one["first"].seq) == ("yes", "it provides 'tv'", registered)
    second = network.member(name="second")
    second.send({"event": "services/register", "name": "tv"})
    network.member(name="observer")
    asked = ask(network, tmp_path, about_request("tv")).sessions
    assert {each.name: each.answer for each in asked} == {"first": "unknown", "second": "unknown", "observer": "yes"}
    assert "one of 2 providers of 'tv' is asked, in turn: first (claimed), second (claimed); " in asked[0].why
    turn = ask(network, tmp_path, about_request("tv").knowing("second", None)).sessions
    assert {each.name: each.answer for each in turn} == {"first": "no", "second": "yes", "observer": "yes"}
    why = {each.name: each.why for each in turn}
    assert why["first"] == "it provides 'tv', but it was the turn of another"
    with pytest.raises(JournalError, match="no session is called 'eve' then"):
        ask(network, tmp_path, about_request("tv").knowing("eve", None))


def test_a_reply_is_for_the_asker_that_is_named(tmp_path: Path) -> None:
    network = Network(announce="off")
    begin(network)
    network.member(name="tv").send({"event": "services/register", "name": "tv"})
    network.member(name="asker")
    network.member(name="other")
    peer = MqttPeer(network, "phone")
    reply = about_object('{"event":"services/reply","in-reply-to":7}', "tv")
    asked_by = {each.name: each for each in ask(network, tmp_path, reply.knowing(None, "asker")).sessions}
    assert {name: (each.answer, each.reason) for name, each in asked_by.items()} == {
        "tv": ("no", "reply"),
        "asker": ("yes", "asked"),
        "other": ("no", "reply"),
        "phone": ("no", "reply"),
    }
    unsure = {each.name: each.answer for each in ask(network, tmp_path, reply).sessions}
    assert unsure == {"tv": "unknown", "asker": "unknown", "other": "unknown", "phone": "unknown"}
    rows: list[tuple[str, str, str]] = [
        ('{"event":"services/reply","in-reply-to":7,"name":"radio"}', "asker", "no session has registered"),
        ('{"event":"services/reply","in-reply-to":7}', "phone", "only members can be askers here"),
        ('{"event":"services/reply","in-reply-to":7}', "eve", "is called 'eve' then"),
    ]
    for text, asker, said in rows:
        question = about_object(text, "tv").knowing(None, asker)
        try:
            notes = ask(network, tmp_path, question).notes
        except JournalError as error:
            notes = [str(error)]
        assert said in notes[0].lower(), (text, asker)
    assert peer.is_open


def test_who_may_not_ask_is_given_no_reply(tmp_path: Path) -> None:
    network = Network(announce="off")
    network.bus.access.policy = parse_policy(NO_ASKING, Path("policy.toml"), ["objects"])
    begin(network)
    network.member(name="tv").send({"event": "services/register", "name": "tv"})
    network.member(name="asker")
    reply = about_object('{"event":"services/reply","in-reply-to":7}', "tv").knowing(None, "asker")
    verdict = only(ask(network, tmp_path, reply, to="asker"))
    assert (verdict.answer, verdict.reason) == ("no", "may-not-ask")


@pytest.mark.parametrize(("text", "sender"), [("{}", "tv"), ('{"event":"services/reply"}', None)])
def test_an_asker_goes_with_a_reply_of_a_named_sender(text: str, sender: str | None) -> None:
    with pytest.raises(ValueError, match="an asker goes with a reply"):
        about_object(text, sender).knowing(None, "ann")


def test_a_lost_link_is_named_with_its_records(tmp_path: Path) -> None:
    fabric = Fabric("hall", "attic", announce="servers")
    cable = fabric.link("hall", "attic")
    fabric.settle()
    for each in fabric.servers.values():
        begin(each)
    far = fabric["attic"].member(name="far")
    fabric.settle()
    assert far.connection.is_open

    def journals(at: Moment, *names: str) -> Answer:
        pasts = [past_of(write(fabric[name], tmp_path / name), at) for name in names]
        return answer(pasts, about_object('{"type":"text/plain"}'), far.routing_id)

    def now() -> Moment:
        return Moment(time=max(network.journal.records[-1].time for network in fabric.servers.values()))

    assert only(journals(now(), "hall", "attic")).answer == "yes"
    alone = only(journals(now(), "hall"))
    assert (alone.answer, alone.reason, alone.server) == ("unknown", "remote", "attic")
    cable.unplug()
    fabric.settle()
    (down,) = [each.seq for each in fabric["hall"].journal.records if type(each.event).__name__ == "LinkDown"]
    moment = now()
    cable.plug()
    fabric.settle(20)
    (*_, up) = [each.seq for each in fabric["hall"].journal.records if type(each.event).__name__ == "LinkUp"]
    verdicts = journals(moment, "hall", "attic").sessions
    assert {(each.answer, each.reason, each.seq) for each in verdicts} == {("no", "link-down", down)}
    assert verdicts[0].why == f"the link to attic was down from record {down} to record {up}"


@pytest.mark.parametrize("text", ["[]", "7", "{", '{"size":-1}', '{"size":"x"}', '{"type":7}', '{"event":["x"]}'])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"object|size"):
        about_object(text)


def test_moments_beyond_a_journal_are_refused(tmp_path: Path) -> None:
    network = Network()
    begin(network)
    rows: list[tuple[Any, Question, str]] = [
        (Moment(seq=99), about_publication("tv"), "ends with record 1, before record 99"),
        (END, about_publication("tv", sender="nobody"), "is called 'nobody'"),
    ]

    for at, question, said in rows:
        with pytest.raises(JournalError, match=said):
            ask(network, tmp_path, question, at)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    network = Network()
    begin(network)
    network.member()
    (path,) = write(network, tmp_path).iterdir()
    path.write_bytes(path.read_bytes().replace(b'"seq":2', b'"seq":x'))
    with pytest.raises(JournalError, match=r"\.jsonl, line 3: "):
        past_of(tmp_path, END)


def test_a_publication_for_many_groups_reaches_all_of_them(tmp_path: Path) -> None:
    """Also beside a link that is told of many sessions: both is done in slices. Each set of MQTT filters is a group."""
    linked = Fabric("a", "b")
    linked.link("a", "b")
    network = linked["a"]
    begin(network)
    linked.settle()
    network.member(name="ann", services=["lamp"])
    peers = [MqttPeer(network, f"phone-{number}") for number in range(70)]
    for number, each in enumerate(peers):
        each.subscribe("lamp", f"only/{number}")
    linked.settle()
    found = answer([past_of(write(network, tmp_path), END)], about_publication("lamp", "text/plain"), None)
    assert {each.answer for each in found.sessions if each.protocol == "mqtt"} == {"yes"}
