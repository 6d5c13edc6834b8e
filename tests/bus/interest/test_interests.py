"""Who wants what, held against a plain reference, and the deployed dialect sentence by sentence."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bussrv.bus.interest import interests
from bussrv.bus.interest.interests import Kind, kind_of, kind_of_content, mode_interest, rule_interest
from bussrv.bus.interest.matching import compile_interest
from bussrv.errors import Refused
from bussrv.settings import Settings
from bussrv.values import ModeInterest, RuleInterest
from bussrv.wire.objects import ObjectReader, encode
from tests.bus import reference
from tests.tables import each_row


def parsed(fields, payload=b""):
    reader = ObjectReader()
    reader.feed(encode(fields, payload))
    return reader.next_event()


def interest_of(subscription):
    if "subscriptions" in subscription:
        return rule_interest(subscription["subscriptions"], LIMITS)
    return mode_interest(subscription.get("receive"), subscription.get("types"), LIMITS)


def wants(subscription, fields, payload=b""):
    return compile_interest(interest_of(subscription))(kind_of(parsed(fields, payload)))


LIMITS = Settings()
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

TEXT = {"type": "text/plain"}
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


def test_what_is_looked_at():
    fields = {"event": "Lamp/ON", "type": "Text/Plain; a=b", "natures": ["N", "m"]}
    assert kind_of(parsed(fields, b"x")) == Kind("lamp/on", "text/plain", ("m", "n"), True)
    assert kind_of(parsed({})) == Kind(None, "", (), False)
    assert kind_of(parsed({"event": "", "type": "t", "size": 0})) == Kind("", "t", (), False)
    assert kind_of_content("Text/Plain; a=b", False) == Kind(None, "text/plain", (), False)


# What a subscription may say.


@each_row(
    ("receive", "types", "message"),
    [
        ("some", None, "the receive mode is one of none, all, no_echo, events_only, not 'some'"),
        (7, None, "not 7"),
        (["all"], None, r"not \['all'\]"),
        ("all", 7, 'types is "all", "none" or an array'),
        ("all", "text/plain", 'types is "all", "none" or an array'),
        ("all", ["text/plain", 7], 'types is "all", "none" or an array'),
        ("all", {"a": 1}, 'types is "all", "none" or an array'),
        ("all", ["a"] * 257, "types has at most 256 content types, not 257"),
    ],
)
def test_wrong_modes_are_refused(receive, types, message):
    with pytest.raises(Refused, match=message) as caught:
        mode_interest(receive, types, LIMITS)
    assert caught.value.reason == "bad-subscription"


def test_the_message_names_the_attribute_of_the_vocabulary():
    with pytest.raises(Refused, match='subscribe is "all"'):
        mode_interest("all", 7, LIMITS, "subscribe")


@each_row("rules", [None, 7, True, {"a": 1}, [7], [["a", None]], [[["a", 1]]], [{}]])
def test_wrong_rules_are_refused(rules):
    with pytest.raises(Refused) as caught:
        rule_interest(rules, LIMITS)
    assert caught.value.reason == "bad-subscription"


def test_equal_interests_are_equal_however_they_were_written():
    assert (
        mode_interest("all", ["Text/*; a=b"], LIMITS)
        == mode_interest(None, ["text/*"], LIMITS)
        == ModeInterest("all", ("text/*",))
    )
    assert (
        mode_interest("no_echo", None, LIMITS)
        == mode_interest("no_echo", "all", LIMITS)
        == ModeInterest("no_echo", None)
    )
    assert mode_interest("all", "none", LIMITS) == mode_interest("all", [], LIMITS) == ModeInterest("all", ())
    assert rule_interest(["@A", ["B", ["C"]]], LIMITS) == RuleInterest(("@a", ("b", "c")))
    assert rule_interest("all", LIMITS) == rule_interest(["*"], LIMITS)


def test_only_so_much_of_a_content_type_counts():
    long = "text/" + "x" * 1000
    assert len(kind_of_content(long, True).type) == interests.MAX_TYPE
    assert wants({"types": [long]}, {"type": long + "; a=b"})
    assert wants({"types": ["text/*"]}, {"type": long})
    assert not wants({"types": ["text/x"]}, {"type": long})
