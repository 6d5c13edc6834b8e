"""Who wants what, held against a plain reference, and the deployed dialect sentence by sentence."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.bus.interest import interests
from bussrv.bus.interest.interests import kind_of, kind_of_content, mode_interest, rule_interest
from bussrv.bus.interest.matching import compile_interest
from bussrv.policy.permissions.file import parse_policy
from tests.bus import reference
from tests.bus.harness import LIMITS, TEXT, parsed
from tests.formats.network import Member, Network, drain
from tests.tables import each_row


def interest_of(subscription):
    if "subscriptions" in subscription:
        return rule_interest(subscription["subscriptions"], LIMITS)
    return mode_interest(subscription.get("receive"), subscription.get("types"), LIMITS)


def wants(subscription, fields, payload=b""):
    return compile_interest(interest_of(subscription))(kind_of(parsed(fields, payload)))


words = st.text(st.sampled_from("abAB/*?;! é"), max_size=6)
types = st.one_of(
    st.sampled_from(["text/plain", "Text/Plain; charset=UTF-8", "image/png", "text/html ; a=b", "", "*", ";"]), words
)
events = st.one_of(st.sampled_from(["ping", "services/request", "Services/Reply", "routing/subscribe", ""]), words)
natures = st.one_of(st.sampled_from(["message", "Spam", "m"]), words)
fields_of_objects = st.fixed_dictionaries(
    {}, optional={"event": events, "type": types, "natures": st.lists(natures, max_size=2), "to": st.just("c1")}
)
payloads = st.sampled_from([b"", b"x"])
patterns = st.one_of(st.sampled_from(["*", "text/*", "*/plain", "?ext/*", "image/png", "TEXT/plain;x", ""]), words)
mode_subscriptions = st.fixed_dictionaries(
    {"receive": st.sampled_from(interests.RECEIVE_MODES)},
    optional={"types": st.one_of(st.sampled_from(["all", "none"]), st.lists(patterns, max_size=3))},
)
marks = st.sampled_from(["", "!"])
tests = st.one_of(
    st.sampled_from(
        ["*", "@*", "#*", "@services/*", "@ping", "#message", "#s*", "text/*", "image/png", "", "*x", "**"]
    ),
    st.builds(
        lambda mark, text, star: mark + text + star, st.sampled_from(["", "@", "#"]), words, st.sampled_from(["", "*"])
    ),
)
rules = st.builds(str.__add__, marks, tests)
rule_lists = st.lists(st.recursive(rules, lambda inner: st.lists(inner, max_size=3), max_leaves=4), max_size=4)
one_string = st.lists(rules, max_size=4).map(", ".join)
rule_subscriptions = st.fixed_dictionaries({"subscriptions": st.one_of(st.just("all"), one_string, rule_lists)})


@given(mode_subscriptions, fields_of_objects, payloads)
def test_modes_are_as_the_reference_has_them(subscription, fields, payload):
    assert wants(subscription, fields, payload) == reference.wants(subscription, fields, payload)


@given(rule_subscriptions, fields_of_objects, payloads)
@example({"subscriptions": ["!*"]}, {}, b"")
@example({"subscriptions": [["!ping"], "*"]}, {"type": "ping"}, b"")
def test_rules_are_as_the_reference_has_them(subscription, fields, payload):
    assert wants(subscription, fields, payload) == reference.wants(subscription, fields, payload)


# The deployed dialect, sentence by sentence: what a session subscribed with, an object, and whether it passes.

IMAGE = {"type": "image/png"}
PING = {"event": "ping"}
REQUEST = {"event": "services/request", "type": "text/plain"}

SENTENCES = [
    ("the LAST rule that matches decides", ["text/*", "!text/plain"], TEXT, False),
    ("the LAST rule that matches decides", ["!text/plain", "text/*"], TEXT, True),
    ("the LAST rule that matches decides", ["text/*", "!image/*"], TEXT, True),
    ("none matching: no pass", ["image/*"], TEXT, False),
    ("none matching: no pass", ["!image/*"], TEXT, False),
    ("an empty list: no pass", [], TEXT, False),
    ("an empty list: no pass", [], PING, False),
    ('the bare string "all" means ["*"]', "all", TEXT, True),
    ('the bare string "all" means ["*"]', "all", PING, True),
    ('"!" in front negates', ["*", "!@ping"], PING, False),
    ('"!" in front negates', ["*", "!@ping"], TEXT, True),
    ('"#x" matches one of the natures', ["#message"], {"natures": ["other", "message"]}, True),
    ('"#x" matches one of the natures', ["#message"], {"natures": ["other"]}, False),
    ('"#x" matches one of the natures', ["#message"], {"natures": "message"}, True),
    ('"#x" matches one of the natures', ["#message"], {"type": "message"}, False),
    ('"#x" matches one of the natures', ["#*"], {}, False),
    ('"@x" matches the event', ["@ping"], PING, True),
    ('"@x" matches the event', ["@ping"], {"event": "pings"}, False),
    ('"@x" matches the event', ["@*"], TEXT, False),
    ("anything else matches the content type", ["text/plain"], TEXT, True),
    ("anything else matches the content type", ["text/plain"], {"type": "text/html"}, False),
    ("anything else matches the content type", ["ping"], PING, False),
    ("anything else matches the content type", ["text/*"], REQUEST, True),
    ('before any ";"', ["text/plain"], {"type": "text/plain; charset=UTF-8"}, True),
    ('before any ";"', ["text/plain"], {"type": "text/plain ;charset=UTF-8"}, True),
    ('a trailing "*" is a wildcard for any number of characters', ["text/*"], {"type": "text/"}, True),
    ('a trailing "*" is a wildcard for any number of characters', ["@services/*"], REQUEST, True),
    ('a trailing "*" is a wildcard for any number of characters', ["#mess*"], {"natures": ["message"]}, True),
    ('a trailing "*" is a wildcard for any number of characters', ["*/plain"], TEXT, False),
    ('a lone "*" matches every object, events too', ["*"], {}, True),
    ('a lone "*" matches every object, events too', ["*"], REQUEST, True),
    ("letter case does not matter", ["TEXT/Plain"], {"type": "text/PLAIN"}, True),
    ("letter case does not matter", ["@PING"], {"event": "Ping"}, True),
    ("letter case does not matter", ["#Message"], {"natures": ["mESSAGE"]}, True),
    ("in a nested array, a match inside it decides at once", [["text/*"], "!*"], TEXT, True),
    ("in a nested array, a match inside it decides at once", [["!text/*", "*"], "*"], TEXT, False),
    ("in a nested array, a match inside it decides at once", [["image/*"], "!*"], TEXT, False),
    ("in a nested array, a match inside it decides at once", [[["text/*"], "!text/plain"], "!*"], TEXT, True),
    ('an object with no type has the type ""', ["image/*"], {}, False),
    ('an object with no type has the type ""', ["*"], {}, True),
    ('an object with no type has the type ""', [""], {}, True),
    ('an object with no type has the type ""', [""], PING, True),
]


@each_row(("sentence", "subscriptions", "fields", "expected"), SENTENCES)
def test_the_deployed_dialect(sentence, subscriptions, fields, expected):
    assert wants({"subscriptions": subscriptions}, fields) is expected, sentence


# Object System and Business Object: what receive modes and types mean.


@each_row(
    ("receive", "types", "fields", "payload", "expected"),
    [
        ("none", "all", PING, b"", False),
        ("none", "all", TEXT, b"x", False),
        ("all", "all", TEXT, b"x", True),
        ("all", "all", {}, b"", True),
        ("no_echo", "all", TEXT, b"x", True),
        ("events_only", "all", PING, b"", True),
        ("events_only", "all", REQUEST, b"x", True),
        ("events_only", "all", TEXT, b"x", False),
        ("events_only", "all", {"natures": ["n"]}, b"", False),
        ("all", "none", PING, b"", True),
        ("all", "none", REQUEST, b"x", True),
        ("all", "none", TEXT, b"x", False),
        ("all", "none", {}, b"", False),
        ("all", [], TEXT, b"x", False),
        ("all", ["image/*"], REQUEST, b"x", True),
        ("all", ["image/*"], IMAGE, b"x", True),
        ("all", ["image/*"], TEXT, b"x", False),
        ("all", ["text/*"], {"type": "text/plain; charset=UTF-8"}, b"x", True),
        ("all", ["TEXT/plain; charset=UTF-8"], {"type": "text/PLAIN"}, b"x", True),
        ("all", ["t?xt/*"], TEXT, b"x", True),
        ("all", ["*/p*n"], TEXT, b"x", True),
        ("all", ["application/octet-stream"], {}, b"x", True),
        ("all", ["application/octet-stream"], {}, b"", False),
        ("all", ["*"], {}, b"", True),
        ("all", ["?*"], {}, b"", False),
        (None, None, TEXT, b"x", True),
    ],
)
def test_modes(receive, types, fields, payload, expected):
    assert wants({"receive": receive, "types": types}, fields, payload) is expected


def test_only_so_much_of_a_content_type_counts():
    long = "text/" + "x" * 1000
    assert len(kind_of_content(long, True).type) == interests.MAX_TYPE
    assert wants({"types": [long]}, {"type": long + "; a=b"})
    assert wants({"types": ["text/*"]}, {"type": long})
    assert not wants({"types": ["text/x"]}, {"type": long})


def test_an_object_does_not_wait_for_the_rules_of_all_receivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are compiled as each one joins."""
    network = Network()
    rules = [f'[[rule]]\nusers = ["u{each}"]\nsend = "*"\nobserve = "text/*"\n' for each in range(3)]
    network.bus.access.policy = parse_policy("".join(rules), Path("policy.toml"), ["objects"])
    members = []
    for number in range(3):
        member = Member(network.connect("objects"))
        about = network.registry.state.sessions[member.connection.protocol.session_id].about()
        network.registry.note(ev.AuthSucceeded(**{**about, "actor": f"u{number}"}, method="password"))
        member.send({"event": "routing/subscribe"})
        members.append(member)
    drain(members)
    assert members[0].connection.protocol.permissions().may("send", "text/plain")
    monkeypatch.setattr("bussrv.policy.permissions.rules.ClauseTable", None)
    members[0].send({"type": "text/plain"})
    assert [each.names() for each in members] == [["text/plain"]] * 3
