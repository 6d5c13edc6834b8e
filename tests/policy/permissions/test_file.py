"""The policy file: every fault is told with its line, all of them together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bussrv.errors import ConfigError
from bussrv.policy.permissions.file import (
    CONDITIONS,
    MAX_CLAUSES,
    MAX_FAULTS,
    MAX_FILE,
    MAX_RULES,
    MAX_WILDCARD_CHARACTERS,
    read_policy,
)
from bussrv.policy.permissions.rules import ACTIONS
from tests.tables import each_row

FORMATS = ("objects", "spp")
TOO_LONG = (
    "patterns with wildcards elsewhere than one * at an end are too long in all: "
    f"the most there can be is {MAX_WILDCARD_CHARACTERS} characters"
)


def faults(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_policy(path, "--policy", FORMATS)
    return [each.replace(str(path), "FILE") for each in caught.value.sentences]


def faults_of(text: str, tmp_path: Path) -> list[str]:
    path = tmp_path / "policy.toml"
    path.write_text(f"{text}\n")
    path.chmod(0o600)
    return faults(path)


def test_all_faults_are_reported_together_in_order_of_lines(tmp_path: Path) -> None:
    text = """\
colour = "red"
[groups]
staff = ["ann", "b*", 7]
"" = []
[[rule]]
group = ["staff"]
groups = ["staff", "stuff"]
[[rule]]
users = []
networks = ["10.0.0.1/8", "unix", "::ffff:10.0.0.0/104"]
formats = ["objects", "http"]
watch = [
    "tv/*",
    "!tv/secret",
    "",
    "bad\\u0007",
]
send = ["text/plain; charset=UTF-8", "@"]
observe = ["*", "!@secret"]
admin = "all"
"""
    assert faults_of(text, tmp_path) == [
        "FILE:1: there is no table 'colour': there are [groups] and [[rule]]",
        "FILE:3: 'b*': a user is named without wildcards",
        "FILE:3: staff: 7 is not a text",
        "FILE:4: '' has 0 bytes; a group has 1 to 255",
        f"FILE:6: there is no key 'group' in a rule: there are {', '.join((*CONDITIONS, *ACTIONS))}",
        "FILE:7: there is no group 'stuff'",
        "FILE:9: users is empty: leave it out, or name something",
        "FILE:10: networks: 10.0.0.1/8 has host bits set",
        "FILE:10: networks: ::ffff:10.0.0.0/104 holds IPv4 addresses: write them as such",
        "FILE:11: there is no wire format 'http': there are objects, spp",
        'FILE:14: watch = "!tv/secret" never decides, because tv/* comes first, and the first match decides',
        "FILE:15: '' has 0 bytes; a pattern has 1 to 255",
        "FILE:16: 'bad\\x07' holds characters that cannot be printed, or a blank at an end",
        "FILE:18: '' has 0 bytes; a pattern has 1 to 255",
        "FILE:18: send: content types are compared without parameters: leave out what follows ;",
        'FILE:19: observe = "!@secret" never decides, because * comes first, and the first match decides',
        "FILE:20: admin: 'all' is none of read, write, none",
    ]


@each_row(
    ("text", "fault"),
    [
        pytest.param("rule = 1\n", "FILE:1: rule is not an array of tables: begin each rule with [[rule]]", id="rule"),
        pytest.param(
            "\n[rule]\n", "FILE:2: rule is not an array of tables: begin each rule with [[rule]]", id="one rule"
        ),
        pytest.param("groups = []", "FILE:1: groups is not a table of lists of users", id="groups"),
        pytest.param("[groups.a]\nb = 1", "FILE:1: a: {'b': 1} is not a text", id="nested"),
        pytest.param(
            "[[rule]]\n" * (MAX_RULES + 1), f"FILE:1001: there are 1001 rules; the most is {MAX_RULES}", id="rules"
        ),
        pytest.param(
            f'[[rule]]\nwatch = "a"\nlink = {["a"] * MAX_CLAUSES}',
            f"FILE:3: there are more than {MAX_CLAUSES} patterns, the most there can be",
            id="clauses",
        ),
        pytest.param(
            f'[[rule]]\nwatch = "a?"\nlink = {["a?"] * (MAX_WILDCARD_CHARACTERS // 2)}',
            f"FILE:3: {TOO_LONG}",
            id="wildcards",
        ),
        pytest.param(
            "[groups\n",
            "FILE:1: not TOML: Expected ']' at the end of a table declaration",
            id="toml",
        ),
        pytest.param(
            "#" * (MAX_FILE + 1), f"--policy: FILE: has more than {MAX_FILE} bytes, the most there can be", id="size"
        ),
    ],
)
def test_a_fault_names_its_line(text: str, fault: str, tmp_path: Path) -> None:
    assert faults_of(text, tmp_path) == [fault]


def test_very_many_faults_are_cut_short(tmp_path: Path) -> None:
    found = faults_of("[[rule]]\n" * 60, tmp_path)
    assert len(found) == MAX_FAULTS + 1
    assert found[-1] == "FILE: and 10 more faults"


def test_a_file_that_others_may_write_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("")
    path.chmod(0o620)
    assert faults(path) == ["--policy: FILE: may be changed by others: chmod go-w FILE"]


def test_a_file_of_another_user_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("")
    path.chmod(0o600)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    if path.stat().st_uid != 0:
        assert faults(path) == ["--policy: FILE: belongs to another user: chown the file to the user of the server"]
    else:
        read_policy(path, "--policy", FORMATS)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing, pipe, text, cut = (tmp_path / each for each in ("missing", "pipe", "text", "cut"))
    os.mkfifo(pipe, 0o600)
    text.write_bytes(b"\xff\n")
    cut.write_bytes(b"[[rule]]\nusers = []")
    for each in (text, cut):
        each.chmod(0o600)
    assert faults(missing) == ["--policy: FILE: cannot be read: No such file or directory"]
    assert faults(pipe) == ["--policy: FILE: cannot be read: it is not a regular file"]
    assert faults(text)[0].startswith("--policy: FILE: is not UTF-8: ")
    assert faults(cut) == ["--policy: FILE ends in the middle of a line: the file was cut off, or is half written"]
