"""What a subscription may say, and what interests look at in an object."""

import pytest

from bussrv.bus.interest.interests import Kind, kind_of, kind_of_content, mode_interest, rule_interest
from bussrv.errors import Refused
from bussrv.values import ModeInterest, RuleInterest
from tests.bus.harness import LIMITS, parsed
from tests.tables import each_row


def test_what_is_looked_at():
    fields = {"event": "Lamp/ON", "type": "Text/Plain; a=b", "natures": ["N", "m"]}
    assert kind_of(parsed(fields, b"x")) == Kind("lamp/on", "text/plain", ("m", "n"), True)
    assert kind_of(parsed({})) == Kind(None, "", (), False)
    assert kind_of(parsed({"event": "", "type": "t", "size": 0})) == Kind("", "t", (), False)
    assert kind_of_content("Text/Plain; a=b", False) == Kind(None, "text/plain", (), False)


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
