"""``bussrv policy``: ask a policy file for decisions, and for the lines that decide."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bussrv.cli.command import CommandGroup
from bussrv.cli.failure import FAILED
from bussrv.cli.parameters import JOURNAL, LazyChoice, json_option, need_one, period_options
from bussrv.cli.show import output

if TYPE_CHECKING:
    from bussrv.policy.permissions.permissions import Action
    from bussrv.policy.permissions.rules import Rules
    from bussrv.why.trial import Trial
    from bussrv.why.uses import Use

policy = CommandGroup(
    name="policy",
    help="Show what a policy file allows a user, or what it would have refused in the past. Or make one of a journal. "
    "No running server is asked.",
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


_journal_names = click.option(
    "--pseudonyms", metavar="KEYFILE", type=click.Path(path_type=Path), help="Judge the names that it leads to."
)


@policy.command(
    name="try",
    short_help="what a policy would have refused",
    examples=("bussrv policy try policy.toml --against bussrv-journal --since -2h",),
    statuses={0: "nothing", 1: "something", 2: "a file could not be read"},
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--against", "journals", metavar="JOURNAL", type=JOURNAL, multiple=True, required=True, help="May be repeated."
)
@period_options
@json_option
@_journal_names
def try_(file: Path, journals: Sequence[Path | str], as_json: bool, **given: Any) -> int:
    """Judge by a policy what the sessions in a journal did: what they provided, subscribed to and published on, and
    that they became members. Print what would have been refused, of which users, and by which line. Refusals of what
    the journal does not have are not foreseen. JOURNAL is a journal directory, or the URL that it is shipped to.
    """
    from bussrv.policy.permissions.file import read_policy
    from bussrv.why.trial import try_policy

    def judge() -> int:
        rules = read_policy(file, "policy", _formats())
        trial = try_policy(rules, _uses(journals, **given))
        if as_json:
            output.json_line(trial)
        else:
            for line in _trial_lines(trial):
                output.line(line)
        return 1 if trial.refusals else 0

    return _reading(judge)


@policy.command(
    short_help="the least policy that allows what was done",
    examples=("bussrv policy learn bussrv-journal",),
    statuses={0: "done", 2: "a file could not be read"},
)
@click.argument("journals", metavar="JOURNAL...", type=JOURNAL, nargs=-1, required=True)
@period_options
@_journal_names
def learn(journals: Sequence[Path | str], **given: Any) -> int:
    """Print the least policy that allows what the sessions in a journal did. Review it before you use it: it allows
    what an intruder did, too, and denies what has not happened yet. JOURNAL is a journal directory, or the URL that it
    is shipped to.
    """
    from bussrv.why.learning import learn

    def write() -> int:
        output.line("# Learned from a journal. Review it: it allows all that was done, and nothing that was not.")
        for line in learn(_uses(journals, **given)):
            output.line(line)
        return 0

    return _reading(write)


def _reading(work: Callable[[], int]) -> int:
    from bussrv.errors import ConfigError, JournalError
    from bussrv.terminal import one_line

    try:
        return work()
    except ConfigError as error:
        sentences = error.sentences
    except JournalError as error:
        sentences = (str(error),)
    for sentence in sentences:
        print(f"bussrv policy: {one_line(sentence)}", file=sys.stderr)
    return FAILED


def _formats() -> frozenset[str]:
    from bussrv.admin.http.login import PROTOCOL
    from bussrv.server.configuration.options import plugins

    return frozenset([*(each.name for each in plugins().formats), PROTOCOL])


def _uses(
    journals: Sequence[Path | str], *, since: int | None, until: int | None, zone: tzinfo, pseudonyms: Path | None
) -> Iterator[Use]:
    """What the sessions in journals did. They are read one after the other."""
    from bussrv.archive.fetching import at_hand
    from bussrv.inspection.commands import Names
    from bussrv.journal.moments import END, Moment
    from bussrv.why.uses import uses_of

    names = None if pseudonyms is None else Names(pseudonyms)
    moments = [Moment(seq=1) if since is None else Moment(time=since), END]
    with at_hand(journals, moments) as directories:
        for directory in directories:
            if names is None:
                yield from uses_of(directory, since, until)
            else:
                yield from uses_of(directory, since, until, names.reveal)


def _trial_lines(trial: Trial) -> Iterator[str]:
    from bussrv.terminal import word

    if not trial.refused:
        yield f"it would have refused nothing of {trial.judged} uses"
        return
    numbers = ", ".join(f"{count} {action}" for action, count in sorted(trial.refused.items()))
    yield f"of {trial.judged} uses it would have refused: {numbers}"
    for each in trial.refusals:
        times = "once" if each.count == 1 else f"{each.count} times"
        what = f"{word(each.user)} {each.action} {word(each.target)} over {each.protocol}"
        yield f"{what}: {times}, first in record {each.first}: {each.rule}"
    if trial.further:
        yield f"and {trial.further} more"
