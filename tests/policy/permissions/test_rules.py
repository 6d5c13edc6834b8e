"""Policies, held against a plain reading of the same file, and what the worst of them take."""

from __future__ import annotations

import json
import re
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from bussrv.errors import ConfigError
from bussrv.policy.permissions.access import ANONYMOUS
from bussrv.policy.permissions.file import parse_policy
from bussrv.policy.permissions.permissions import NOTHING, content
from bussrv.policy.permissions.rules import ACTIONS, MAX_ANSWERS, MAX_TARGET, Rules

FORMATS = ("objects", "business", "inbus", "spp")
PATH = Path("dir/policy.toml")
USERS = ("ann", "bob", ANONYMOUS)
PEERS = ("10.0.0.1:80", "[fd00::1]:80", "unix:/a", "127.0.0.1:7")
NAMES = ("a", "ab", "A", "b/a", "bus/registry", "bus/clock", "", "@a", "@ab", "@A", "text/plain", "*", "a" * 300)
ADMIN = ("read", "write")


def parsed(text: str) -> Rules:
    return parse_policy(text, PATH, FORMATS)


# The reference: the file as the parser of TOML reads it, and regular expressions.


def conditions_hold(rule: dict[str, Any], groups: dict[str, Any], user: str, peer: str, protocol: str) -> bool:
    if "users" in rule or "groups" in rule:
        names = rule.get("users", []) + [name for group in rule.get("groups", []) for name in groups[group]]
        if user not in names and ("*" not in names or user == ANONYMOUS):
            return False
    if "networks" in rule and not any(in_network(peer, each) for each in rule["networks"]):
        return False
    return "formats" not in rule or protocol in rule["formats"]


def in_network(peer: str, network: str) -> bool:
    if peer.startswith("unix") or network == "unix":
        return peer.startswith("unix") and network == "unix"
    return ip_address(peer.rpartition(":")[0].strip("[]")) in ip_network(network)


def matches(action: str, pattern: str, target: str) -> bool:
    pattern = re.sub(r"\*+", "*", pattern)
    if action in ("provide", "publish", "watch", "request") and target.startswith("bus/") != pattern.startswith("bus/"):
        return False
    if action in ("send", "observe"):
        if pattern != "*" and target.startswith("@") != pattern.startswith("@"):
            return False
        pattern = pattern.lower()
    if action == "admin":
        return pattern == target or pattern in ("write", "none")
    expression = "".join({"*": ".*", "?": "."}.get(each, re.escape(each)) for each in pattern)
    return re.fullmatch(expression, target, re.DOTALL) is not None


def allowed(rules: list[dict[str, Any]], action: str, target: str) -> bool:
    for rule in rules:
        patterns = rule.get(action, [])
        for pattern in [patterns] if action == "admin" and patterns else patterns:
            if matches(action, pattern.removeprefix("!"), target):
                return not pattern.startswith("!") and (action, pattern) != ("admin", "none")
    return False


def as_toml(groups: dict[str, list[str]], rules: list[dict[str, Any]]) -> str:
    text = "[groups]\n" + "".join(f"{name} = {json.dumps(users)}\n" for name, users in groups.items())
    for rule in rules:
        text += "[[rule]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in rule.items())
    return text


def some(*values: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=3)


PATTERNS = some("a", "a*", "*a", "?", "a?", "*/*", "*", "**", "bus/*", "b*", "!a", "!a*", "!bus/r*", "!*", "?us/clock")
CONTENT = some("a", "@A", "@*", "!@a", "text/*", "*", "!text/PLAIN", "@?b", "!*", "*b", "@a*")
RULE = st.fixed_dictionaries(
    {"publish": PATTERNS},
    optional={
        "users": some("ann", "bob", "*", ANONYMOUS),
        "groups": some("staff", "nobody"),
        "networks": some("10.0.0.0/8", "fd00::/8", "unix"),
        "formats": some(*FORMATS),
        **dict.fromkeys(("provide", "watch", "request", "address", "link", "tell"), PATTERNS),
        **dict.fromkeys(("send", "observe"), CONTENT),
        "admin": st.sampled_from(("read", "write", "none")),
    },
)
GROUPS = {"staff": ["ann"], "nobody": []}


@given(st.lists(RULE, max_size=4), st.sampled_from(USERS), st.sampled_from(PEERS), st.sampled_from(FORMATS))
@example([{"publish": ["*"]}], "ann", PEERS[0], "spp")
@example([{"publish": ["*", "bus/c*"], "observe": ["@*"]}], "ann", PEERS[0], "spp")
def test_permissions_are_as_a_plain_reading_of_the_file_has_them(rules, user, peer, protocol):
    text = as_toml(GROUPS, rules)
    try:
        policy = parsed(text)
    except ConfigError as error:
        lines = text.splitlines()
        for sentence in error.sentences:
            # What is refused is a denial that decides nothing, in any list that begins like this one.
            found = re.fullmatch(r'dir/policy.toml:(\d+): (\w+) = "!(.*)" never decides, because .*', sentence)
            assert found is not None, sentence
            patterns = json.loads(lines[int(found[1]) - 1].partition("=")[2])
            before = patterns[: patterns.index(f"!{found[3]}")]
            for name in NAMES:
                if matches(found[2], found[3], name):
                    assert any(matches(found[2], each.removeprefix("!"), name) for each in before)
        return
    applying = [each for each in rules if conditions_hold(each, GROUPS, user, peer, protocol)]
    permissions = policy.permissions(user, peer, protocol)
    assert len(policy.applying(user, peer, protocol)) == len(applying)
    assert (permissions is NOTHING) == (not applying)
    for action in ACTIONS:
        for target in ADMIN if action == "admin" else NAMES:
            decision = permissions.decide(action, target)
            assert decision.allowed == allowed(applying, action, target), (action, target)
            assert permissions.may(action, target) == permissions.may(action, target) == decision.allowed
    for name in NAMES:
        seen = any(allowed(applying, each, name) for each in ("watch", "request", "provide", "publish"))
        assert permissions.sees_service(name) == seen
        assert permissions.sees_session(name) == allowed(applying, "address", name)


POLICY = """\
[groups]
staff = ["ann", "bob"]

[[rule]]
groups = "staff"
watch = [
    "!tv/secret",  # nobody
    "tv/*",
]
observe = ["@Routing/*", "text/*"]
admin = "read"

[[rule]]
users = ["*"]
networks = ["10.0.0.0/8"]
publish = "weather"

[[rule]]
formats = ["spp"]
users = "anonymous"
watch = "clock"
"""


def test_decisions_name_the_line() -> None:
    ann = parsed(POLICY).permissions("ann", PEERS[0], "objects")
    said = {
        ("watch", "tv/secret"): 'policy.toml:7: watch = "!tv/secret"',
        ("watch", "tv/news"): 'policy.toml:8: watch = "tv/*"',
        ("observe", content("routing/subscribe/notify", "")): 'policy.toml:10: observe = "@Routing/*"',
        ("observe", "text/plain"): 'policy.toml:10: observe = "text/*"',
        ("admin", "read"): 'policy.toml:11: admin = "read"',
        ("publish", "weather"): 'policy.toml:16: publish = "weather"',
        ("admin", "write"): "policy.toml: no rule for this user allows it",
        ("address", "x" * (MAX_TARGET + 1)): f"policy.toml: nothing of more than {MAX_TARGET} characters is allowed",
    }
    decisions = {key: ann.decide(*key) for key in said}
    assert {key: each.rule for key, each in decisions.items()} == said
    denied = [("watch", "tv/secret"), *list(said)[-2:]]
    assert [key for key, each in decisions.items() if not each.allowed] == denied


def test_sessions_of_the_same_rules_share_their_permissions() -> None:
    policy = parsed(POLICY)
    ann = policy.permissions("ann", PEERS[0], "objects")
    assert policy.permissions("bob", "10.9.9.9:1", "spp") is ann
    assert policy.permissions("bob", "10.9.9.9:1", "spp") is not policy.permissions("bob", PEERS[1], "spp")
    assert policy.permissions("zoe", PEERS[1], "spp") is NOTHING
    assert policy.permissions(ANONYMOUS, PEERS[1], "objects") is NOTHING
    assert policy.permissions(ANONYMOUS, PEERS[0], "spp").sees_service("clock")


def test_a_policy_without_rules_allows_nothing() -> None:
    assert parsed("").permissions("ann", PEERS[0], "objects") is NOTHING


def test_many_users_and_addresses_leave_nothing_behind() -> None:
    policy = parsed(POLICY)
    for number in range(10_000):
        policy.permissions(f"user{number}", f"10.{number // 256}.{number % 256}.1:80", "objects")
    assert len(policy._interned) == 1
    permissions = policy.permissions("ann", PEERS[0], "objects")
    for number in range(10_000):
        permissions.may("watch", f"tv/{number}")
    assert len(permissions._answers) <= MAX_ANSWERS  # type: ignore[attr-defined]
