"""``bussrv policy``: ask a policy file for decisions, and for the lines that decide."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from bussrv.cli.command import Command, Group
from bussrv.cli.parameters import OneOf, need_one
from bussrv.cli.show import output

if TYPE_CHECKING:
    from bussrv.policy.permissions.permissions import Action
    from bussrv.policy.permissions.rules import Rules

DESCRIPTION = """
Show what a policy file allows a user. It reads the file only, and asks no running server.
"""

TEST = """
Print yes or no, and the line of the policy that decides. TARGET is a service, a routing id, a content type, @ and an
event, or for the action admin: read or write.
"""

SHOW = """
Print the lines of the policy that apply to a user, in the order in which they are tried.
"""

ERROR = 2


class Asked(NamedTuple):
    """The file, and the session that the question is about.

    :ivar peer: the address of the client.
    """

    policy: str | None
    config: str | None
    user: str
    peer: str
    format: str


def _actions() -> Sequence[str]:
    from bussrv.policy.permissions.rules import ACTIONS

    return ACTIONS


def _about(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declare the options that describe the session."""
    for option in (
        click.option(
            "--format", metavar="NAME", default="objects", show_default=True, help="The wire format that it speaks."
        ),
        click.option(
            "--from",
            "peer",
            metavar="ADDRESS",
            default="127.0.0.1",
            show_default=True,
            help="The address that the client comes from, or unix.",
        ),
        click.option(
            "--user", metavar="USER", default="anonymous", help="The user.  [default: anonymous, who proves nothing]"
        ),
        click.option("--config", metavar="FILE", help="A configuration file that names the policy file."),
        click.option("--policy", metavar="FILE", help="The policy file."),
    ):
        function = option(function)
    return function


command = Group(name="policy", help=DESCRIPTION)


@command.command(
    cls=Command,
    name="test",
    help=TEST,
    short_help="whether an action is allowed",
    examples=("bussrv policy test --policy policy.toml --user ann publish tv",),
    statuses={0: "yes", 1: "no", 2: "the file or the question makes no sense"},
)
@_about
@click.argument("action", metavar="ACTION", type=OneOf("ACTION", _actions))
@click.argument("target", metavar="TARGET")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def test(action: str, target: str, as_json: bool, **about: Any) -> int:
    """Show whether an action is allowed."""
    return _answer(Asked(**about), lambda rules, asked: _test(rules, asked, action, target, as_json=as_json))


@command.command(
    cls=Command,
    name="show",
    help=SHOW,
    short_help="the lines that apply, in order",
    examples=("bussrv policy show --policy policy.toml --user ann",),
    statuses={0: "done", 2: "the file or the question makes no sense"},
)
@_about
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def show(as_json: bool, **about: Any) -> int:
    """Show the lines that apply."""
    return _answer(Asked(**about), lambda rules, asked: _show(rules, asked, as_json=as_json))


def _answer(asked: Asked, answer: Callable[[Rules, Asked], int]) -> int:
    from bussrv.errors import ConfigError
    from bussrv.terminal import one_line

    need_one(policy=asked.policy, config=asked.config)
    try:
        return answer(_rules(asked), asked)
    except ConfigError as error:
        for sentence in error.sentences:
            print(f"bussrv policy: {one_line(sentence)}", file=sys.stderr)
        return ERROR


def _rules(asked: Asked) -> Rules:
    """The rules of the file.

    :raises ConfigError: there are no rules, or no session can have this wire format and address.
    """
    from bussrv.addresses import UNIX, parse_host
    from bussrv.errors import ConfigError
    from bussrv.policy.permissions.file import read_policy
    from bussrv.server.configuration.option_table import BUILT_IN
    from bussrv.server.configuration.options import NO_SERVER
    from bussrv.server.configuration.plugins import installed

    found = installed({*NO_SERVER, *(each.name for each in BUILT_IN)})
    formats = frozenset(each.name for each in found.formats)
    if asked.format not in formats:
        raise ConfigError(f"--format: there is no wire format {asked.format!r}: there are {', '.join(sorted(formats))}")
    if asked.peer != UNIX and parse_host(asked.peer) is None:
        raise ConfigError(f"--from: {asked.peer!r} is no address, such as 10.0.0.7, and not unix")
    if asked.policy is not None:
        return read_policy(Path(asked.policy), "--policy", formats)
    from bussrv.server.configuration import config
    from bussrv.server.configuration.option_table import table
    from bussrv.server.configuration.sources import of_command_line, of_environment
    from bussrv.server.running import policy

    options = table(found.formats, found.services)
    given = {**of_environment(os.environ, options), **of_command_line({"config": asked.config})}
    rules = policy.read(config.build(given, found.formats, found.services), formats)
    if rules is None:
        raise ConfigError(f"{asked.config} names no policy")
    return rules


def _test(rules: Rules, asked: Asked, action: str, target: str, *, as_json: bool) -> int:
    from bussrv.bus.interest.interests import bare_type
    from bussrv.errors import ConfigError
    from bussrv.policy.permissions.permissions import content
    from bussrv.policy.permissions.rules import CONTENT_ACTIONS, EVENT

    if action == "admin" and target not in ("read", "write"):
        raise ConfigError(f"{target!r} is neither read nor write")
    if action in CONTENT_ACTIONS:
        is_event = target.startswith(EVENT)
        target = content(target[1:].lower(), "") if is_event else content(None, bare_type(target))
    decision = rules.permissions(asked.user, asked.peer, asked.format).decide(cast("Action", action), target)
    if as_json:
        output.json_line({"allowed": decision.allowed, "rule": decision.rule})
    else:
        print(f"{'yes' if decision.allowed else 'no'}: {decision.rule}")
    return 0 if decision.allowed else 1


def _show(rules: Rules, asked: Asked, *, as_json: bool) -> int:
    applying = rules.applying(asked.user, asked.peer, asked.format)
    lines = [rules.line_of(clause) for rule in applying for clause in rule.clauses]
    if as_json:
        output.json_line({"lines": lines})
        return 0
    for line in lines:
        print(line)
    if not applying:
        print("no rule applies to this user")
    return 0
