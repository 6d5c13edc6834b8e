"""The ``bussrv`` command: tables of subcommands. A subcommand is imported when it is used."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from bussrv.cli.command import LazyGroup, Row
from bussrv.cli.failure import BROKEN_PIPE, FAILED, INTERRUPTED, Failure
from bussrv.cli.streams import OutputError, prepare
from bussrv.version import VERSION

COMPLETE = "_BUSSRV_COMPLETE"
"""The variable by which a shell asks for completions."""

SECTIONS: dict[str, dict[str, Row]] = {
    "Use the bus": {
        "sub": Row("bussrv.cli.commands.talk.sub", "show publications on services"),
        "pub": Row("bussrv.cli.commands.talk.pub", "publish on a service"),
        "request": Row("bussrv.cli.commands.talk.request", "send a request to a service, and show the reply"),
        "reply": Row("bussrv.cli.commands.talk.reply", "make a service of a shell command"),
    },
    "Set up a server": {
        "init": Row("bussrv.cli.commands.set_up.init", "make the files of a server that other machines may reach"),
        "check": Row("bussrv.cli.commands.set_up.check", "check a configuration file, and the files that it names"),
        "conformance": Row("bussrv.cli.commands.set_up.conformance", "judge a wire format: does it keep every promise"),
        "cert": Row("bussrv.cli.commands.set_up.cert", "renew the certificate of a server"),
        "passwd": Row("bussrv.cli.commands.set_up.logins", "add a user to the file of --auth users:FILE"),
        "token": Row("bussrv.cli.commands.set_up.logins", "make a token for the file of --auth tokens:FILE"),
        "policy": Row("bussrv.cli.commands.set_up.policy", "show what a policy file allows, and by which line"),
    },
    "Look at a server": {
        "services": Row("bussrv.cli.commands.operate.lists", "list the services"),
        "sessions": Row("bussrv.cli.commands.operate.lists", "list the sessions"),
        "session": Row("bussrv.cli.commands.operate.session", "show a session, or its history after its end"),
        "who": Row("bussrv.cli.commands.operate.lists", "show the providers and the subscribers of a service"),
        "links": Row("bussrv.cli.commands.operate.lists", "list the links to other servers"),
        "servers": Row("bussrv.cli.commands.operate.lists", "list all servers, with their health and traffic"),
        "top": Row("bussrv.cli.commands.operate.top", "watch throughput, times, slow sessions and refusals"),
        "health": Row("bussrv.cli.commands.operate.health", "show whether a server is ready, and its checks"),
        "incidents": Row("bussrv.cli.commands.operate.incidents", "list what needs a look, and take note of it"),
        "events": Row("bussrv.cli.commands.operate.streams", "show changes of the registry, as they happen"),
        "tap": Row("bussrv.cli.commands.operate.streams", "show objects that go through the server"),
        "alive": Row("bussrv.cli.commands.talk.alive", "ask a server on this machine for a sign of life"),
    },
    "Steer a server": {
        "close": Row("bussrv.cli.commands.operate.steer", "close a session"),
        "reload": Row("bussrv.cli.commands.operate.steer", "let the server read its files again"),
        "drain": Row("bussrv.cli.commands.operate.steer", "end the sessions one after the other, and stop the server"),
    },
    "Join a server to others": {
        "uplink": Row("bussrv.cli.commands.operate.uplink", "join a server to NATS or Kafka"),
        "witness": Row("bussrv.cli.commands.operate.witness", "cosign the checkpoints of journals"),
    },
    "Measure": {
        "bench": Row("bussrv.cli.commands.talk.bench", "measure a new server on this machine"),
    },
    "Look back": {
        "journal": Row("bussrv.cli.commands.records.journal", "show records of a journal, verify it, seal it"),
        "audit": Row("bussrv.cli.commands.records.audit", "check journals and report sessions, services and events"),
        "timeline": Row("bussrv.cli.commands.records.timeline", "show the history of a client or a service"),
        "why": Row("bussrv.cli.commands.records.why", "say why a client was given an object, or was not"),
    },
    "This command": {
        "completion": Row(
            "bussrv.cli.commands.set_up.completion", "print the script that completes commands in a shell"
        ),
    },
}

BUSSRV = LazyGroup(
    "bussrv",
    sections=SECTIONS,
    help="Tools for a bussrv message bus. The server itself is started with: twistd bussrv",
)
click.version_option(VERSION, prog_name="bussrv", message="%(prog)s %(version)s")(BUSSRV)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``, by default that of this process, and return the exit status."""
    if not prepare():
        # The command does nothing that nobody would see.
        print("bussrv: standard output is closed", file=sys.stderr)
        return FAILED
    try:
        return _run(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:
        return INTERRUPTED
    except OutputError as error:
        error.drop_rest()
        if error.reader_ended:
            return BROKEN_PIPE
        try:
            print(f"bussrv: {error}", file=sys.stderr)
        except OutputError as also:
            also.drop_rest()
        return FAILED


def _run(arguments: list[str]) -> int:
    status: int
    try:
        if COMPLETE in os.environ:
            from click.shell_completion import shell_complete

            return shell_complete(BUSSRV, {}, "bussrv", COMPLETE, os.environ[COMPLETE])
        with BUSSRV.make_context("bussrv", arguments) as context:
            status = BUSSRV.invoke(context)
    except click.exceptions.Exit as ended:
        status = ended.exit_code
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx is not None else "bussrv"
        said = " ".join(error.format_message().split()).rstrip(".")
        status = _complain(path, f"{said[:1].lower()}{said[1:]} (see {path} --help)", FAILED)
    except Failure as error:
        status = _complain(" ".join(["bussrv", *arguments[:1]]), error.message, error.status)
    sys.stdout.flush()
    return status


def _complain(who: str, sentence: str, status: int) -> int:
    """Print one sentence on standard error. :returns: the exit status."""
    from bussrv.terminal import one_line

    sys.stdout.flush()
    print(f"{who}: {one_line(sentence)}", file=sys.stderr)
    return status
