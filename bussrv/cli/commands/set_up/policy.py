"""``bussrv policy``: ask a policy file for decisions, and for the lines that decide."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bussrv.cli.command import CommandGroup
from bussrv.cli.failure import FAILED
from bussrv.cli.parameters import LazyChoice, json_option, need_one
from bussrv.cli.show import output

if TYPE_CHECKING:
    from bussrv.policy.permissions.permissions import Action
    from bussrv.policy.permissions.rules import Rules

policy = CommandGroup(
    name="policy", help="Show what a policy file allows a user. It reads the file only, and asks no running server."
)


class AskedSession(NamedTuple):
    """The session that a question is about.

    :ivar peer: the address of the client.
    """

    user: str
    peer: str
    format: str


def _actions() -> Sequence[str]:
    from bussrv.policy.permissions.rules import ACTIONS

    return ACTIONS


def _asks(function: Callable[..., int]) -> Callable[..., int]:
    """Declare the options of a question. The function gets the rules of the file, and the session."""

    @click.option("--policy", metavar="FILE", help="The policy file.")
    @click.option("--config", metavar="FILE", help="A configuration file that names the policy file.")
    @click.option(
        "--user", metavar="USER", default="anonymous", help="The user.  [default: anonymous, who proves nothing]"
    )
    @click.option(
        "--from",
        "peer",
        metavar="ADDRESS",
        default="127.0.0.1",
        show_default=True,
        help="The address that the client comes from, or unix.",
    )
    @click.option(
        "--format", metavar="NAME", default="objects", show_default=True, help="The wire format that it speaks."
    )
    @functools.wraps(function)
    def asked(policy: str | None, config: str | None, user: str, peer: str, format: str, **given: Any) -> int:  # noqa: A002
        from bussrv.errors import ConfigError
        from bussrv.terminal import one_line

        need_one(policy=policy, config=config)
        asker = AskedSession(user, peer, format)
        try:
            return function(_rules(policy, config, asker), asker, **given)
        except ConfigError as error:
            for sentence in error.sentences:
                print(f"bussrv policy: {one_line(sentence)}", file=sys.stderr)
            return FAILED

    return asked


def _rules(policy_file: str | None, config_file: str | None, asker: AskedSession) -> Rules:
    """The rules of the file.

    :raises ConfigError: there are no rules, or no session can have this wire format and address.
    """
    from bussrv.addresses import UNIX, parse_host
    from bussrv.errors import ConfigError
    from bussrv.policy.permissions.file import read_policy
    from bussrv.server.configuration.options import config_of, plugins

    found = plugins()
    formats = frozenset(each.name for each in found.formats)
    if asker.format not in formats:
        raise ConfigError(f"--format: there is no wire format {asker.format!r}: there are {', '.join(sorted(formats))}")
    if asker.peer != UNIX and parse_host(asker.peer) is None:
        raise ConfigError(f"--from: {asker.peer!r} is no address, such as 10.0.0.7, and not unix")
    if policy_file is not None:
        return read_policy(Path(policy_file), "--policy", formats)
    from bussrv.server.running.policy import read

    assert config_file is not None
    rules = read(config_of(config_file, found), formats)
    if rules is None:
        raise ConfigError(f"{config_file} names no policy")
    return rules


@policy.command(
    short_help="whether an action is allowed",
    examples=("bussrv policy test --policy policy.toml --user ann publish tv",),
    statuses={0: "yes", 1: "no", 2: "the file or the question makes no sense"},
)
@_asks
@click.argument("action", metavar="ACTION", type=LazyChoice("ACTION", _actions))
@click.argument("target", metavar="TARGET")
@json_option
def test(rules: Rules, asker: AskedSession, action: Action, target: str, as_json: bool) -> int:
    """Print yes or no, and the line of the policy that decides. TARGET is a service, a routing id, a content type, @
    and an event, or for the action admin: read or write.
    """
    from bussrv.bus.interest.interests import bare_type
    from bussrv.errors import ConfigError
    from bussrv.policy.permissions.permissions import content
    from bussrv.policy.permissions.rules import CONTENT_ACTIONS, EVENT

    if action == "admin" and target not in ("read", "write"):
        raise ConfigError(f"{target!r} is neither read nor write")
    if action in CONTENT_ACTIONS:
        is_event = target.startswith(EVENT)
        target = content(target[1:].lower(), "") if is_event else content(None, bare_type(target))
    decision = rules.permissions(asker.user, asker.peer, asker.format).decide(action, target)
    if as_json:
        output.json_line({"allowed": decision.allowed, "rule": decision.rule})
    else:
        print(f"{'yes' if decision.allowed else 'no'}: {decision.rule}")
    return 0 if decision.allowed else 1


@policy.command(
    short_help="the lines that apply, in order",
    examples=("bussrv policy show --policy policy.toml --user ann",),
    statuses={0: "done", 2: "the file or the question makes no sense"},
)
@_asks
@json_option
def show(rules: Rules, asker: AskedSession, as_json: bool) -> int:
    """Print the lines of the policy that apply to a user, in the order in which they are tried."""
    applying = rules.applying(asker.user, asker.peer, asker.format)
    lines = [rules.line_of(clause) for rule in applying for clause in rule.clauses]
    if as_json:
        output.json_line({"lines": lines})
        return 0
    for line in lines:
        print(line)
    if not applying:
        print("no rule applies to this user")
    return 0
