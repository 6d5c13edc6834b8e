"""``bussrv policy``: ask a policy file what it allows, and by which line."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bussrv.policy.rules import Rules

SUMMARY = "ask a policy file what it allows, and by which line"

DESCRIPTION = """
Ask a policy file what a user may do. `bussrv policy test` prints yes or no, and the line that decides. Exit status: 0
yes, 1 no, 2 the file or the question makes no sense. `bussrv policy show` prints the lines that apply to a user, in the
order in which they are tried; exit status: 0, or 2. Nothing is asked of a running server.
"""

ERROR = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    from bussrv.policy.rules import ACTIONS

    commands = parser.add_subparsers(dest="question", metavar="QUESTION", required=True)
    test = commands.add_parser("test", help="whether an action is allowed", description=DESCRIPTION)
    _add_session(test)
    test.add_argument("action", metavar="ACTION", choices=ACTIONS, help=", ".join(ACTIONS))
    test.add_argument(
        "target",
        metavar="TARGET",
        help="a service, a routing id, a content type, @ and an event, or for admin: read or write",
    )
    show = commands.add_parser("show", help="the lines that apply, in order", description=DESCRIPTION)
    _add_session(show)


def _add_session(parser: argparse.ArgumentParser) -> None:
    file = parser.add_mutually_exclusive_group(required=True)
    file.add_argument("--policy", metavar="FILE", help="the policy file")
    file.add_argument("--config", metavar="FILE", help="a configuration file that names the policy file")
    parser.add_argument("--user", default="anonymous", help="the user [default: anonymous, who proves nothing]")
    parser.add_argument(
        "--from",
        dest="peer",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="the address that the client comes from, or unix [default: 127.0.0.1]",
    )
    parser.add_argument("--format", default="objects", help="the wire format that it speaks [default: objects]")


def run(arguments: argparse.Namespace) -> int:
    """Do it, and return the exit status."""
    from bussrv.errors import ConfigError
    from bussrv.server.logtext import one_line

    try:
        rules = _rules(arguments)
        return _test(rules, arguments) if arguments.question == "test" else _show(rules, arguments)
    except ConfigError as error:
        for sentence in error.sentences:
            print(f"bussrv policy: {one_line(sentence)}", file=sys.stderr)
        return ERROR


def _rules(arguments: argparse.Namespace) -> Rules:
    """The rules to ask.

    :raises ConfigError: there are none, or the session that is asked about cannot be.
    """
    from bussrv.addresses import UNIX, parse_host
    from bussrv.errors import ConfigError
    from bussrv.policy.file import read_policy
    from bussrv.server.option_table import BUILT_IN
    from bussrv.server.options import NO_SERVER
    from bussrv.server.plugins import installed

    found = installed({*NO_SERVER, *(each.name for each in BUILT_IN)})
    formats = frozenset(each.name for each in found.formats)
    if arguments.format not in formats:
        raise ConfigError(
            f"--format: there is no wire format {arguments.format!r}: there are {', '.join(sorted(formats))}"
        )
    if arguments.peer != UNIX and parse_host(arguments.peer) is None:
        raise ConfigError(f"--from: {arguments.peer!r} is no address, such as 10.0.0.7, and not unix")
    if arguments.policy is not None:
        return read_policy(Path(arguments.policy), "--policy", formats)
    from bussrv.server import config, policy
    from bussrv.server.option_table import table
    from bussrv.server.sources import of_command_line, of_environment

    options = table(found.formats, found.services)
    given = {**of_environment(os.environ, options), **of_command_line({"config": arguments.config})}
    rules = policy.read(config.build(given, found.formats, found.services), formats)
    if rules is None:
        raise ConfigError(f"{arguments.config} names no policy")
    return rules


def _test(rules: Rules, arguments: argparse.Namespace) -> int:
    from bussrv.bus.interest import bare_type
    from bussrv.errors import ConfigError
    from bussrv.policy.permissions import content
    from bussrv.policy.rules import CONTENT_ACTIONS, EVENT

    target = arguments.target
    if arguments.action == "admin" and target not in ("read", "write"):
        raise ConfigError(f"{target!r} is neither read nor write")
    if arguments.action in CONTENT_ACTIONS:
        is_event = target.startswith(EVENT)
        target = content(target[1:].lower(), "") if is_event else content(None, bare_type(target))
    decision = rules.permissions(arguments.user, arguments.peer, arguments.format).decide(arguments.action, target)
    print(f"{'yes' if decision.allowed else 'no'}: {decision.rule}")
    return 0 if decision.allowed else 1


def _show(rules: Rules, arguments: argparse.Namespace) -> int:
    applying = rules.applying(arguments.user, arguments.peer, arguments.format)
    for rule in applying:
        for clause in rule.clauses:
            print(rules.line_of(clause))
    if not applying:
        print("no rule applies to this user")
    return 0
