"""The rules of observers: a client understands them as the server does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bussrv.bus.interest.interests import kind_of, rule_interest
from bussrv.bus.interest.matching import compile_interest
from bussrv.client.core.rules import ObserverRules, check_rules
from bussrv.settings import Settings
from bussrv.wire.objects import BusObject, ObjectReader, encode

words = st.text(st.sampled_from("abAB/*?; é"), max_size=4)
texts = st.one_of(st.sampled_from(["text/plain", "Text/Plain; charset=UTF-8", "ping", "services/request", ""]), words)
objects = st.fixed_dictionaries(
    {}, optional={"event": texts, "type": texts, "natures": st.one_of(texts, st.lists(texts, max_size=2), st.none())}
)
rules = st.builds(
    lambda blank, sign, kind, text, star: blank + sign + kind + text + star,
    *(st.sampled_from(["", "", " "]), st.sampled_from(["", "", "!", "! "])),
    *(st.sampled_from(["", "", "@", "#"]), texts, st.sampled_from(["", "*"])),
)


@given(st.lists(rules, max_size=3), objects)
@example([], {"event": "ping"})
@example(["#m"], {"natures": "message"})
@example(["*", "!@ping", "text/*", "!text/html"], {"type": "text/plain"})
@example(["*", "!@ping"], {"event": "ping", "type": "text/plain"})
@example(["!@ping"], {"type": "text/plain"})
@example(["TEXT/plain "], {"type": "text/plain;a=b"})
def test_a_client_reads_rules_as_the_server_does(rules: list[str], fields: dict[str, Any]) -> None:
    checked = check_rules(rules)
    reader = ObjectReader()
    reader.feed(encode(fields))
    obj = reader.next_event()
    assert isinstance(obj, BusObject)
    assert ObserverRules(checked).match(fields) == compile_interest(rule_interest(list(checked), Settings()))(
        kind_of(obj)
    )


def test_what_a_server_of_another_kind_may_send_matches_or_not() -> None:
    rules = ObserverRules(["@ping", "#a*", "text/*"])
    for wrong in (None, 5, True, [], {}, [5, None], {"a": "b"}):
        assert not rules.match({"event": wrong, "natures": wrong, "type": wrong})


@pytest.mark.parametrize("rule", ["text/plain,image/png", 5])
def test_what_is_no_rule_is_refused(rule: Any) -> None:
    with pytest.raises(ValueError, match="a rule is"):
        check_rules(["*", rule])
