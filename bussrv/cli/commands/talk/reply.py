"""``bussrv reply``: make a service of a shell command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from bussrv.cli.command import command
from bussrv.cli.connection import ConnectionOptions, connects
from bussrv.cli.parameters import exclude, format_option, reconnect_option, seconds, whole

if TYPE_CHECKING:
    from bussrv.cli.traffic.answering import Answered

FORMATS = ("objects", "business")


@command(
    examples=("bussrv reply clock -- date -u", "bussrv reply upper --concurrency 8 -- tr a-z A-Z"),
    statuses={0: "--count requests were answered", 3: "the connection was lost"},
)
@click.argument("service", metavar="SERVICE")
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND...", type=click.UNPROCESSED)
@format_option(FORMATS)
@click.option("--type", "content_type", metavar="TYPE", help="The content type of replies.  [default: text, or bytes]")
@click.option(
    "--concurrency",
    metavar="N",
    type=whole(1, 1000),
    default=4,
    show_default=True,
    help="The most commands that run at the same time.",
)
@click.option(
    "--waiting",
    metavar="N",
    type=whole(0, 100_000),
    default=100,
    show_default=True,
    help="The most requests that wait for a command. Further ones are refused: too-busy.",
)
@click.option(
    "--limit",
    "seconds",
    metavar="S",
    type=seconds(0.01, 86400.0),
    default=10.0,
    help="Seconds that a command may take. After that it is killed: command-timeout.  [default: 10]",
)
@click.option(
    "--max-reply",
    metavar="BYTES",
    type=whole(0, 1 << 30),
    default=16 << 20,
    show_default=True,
    help="The most bytes of a reply. A command that writes more is killed: reply-too-large.",
)
@click.option("-n", "--count", metavar="N", type=whole(1), help="End after so many requests.")
@reconnect_option
@click.option("--quiet", is_flag=True, help="Print nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@connects
def reply(
    connection: ConnectionOptions,
    *,
    service: str,
    words: Sequence[str],
    wire_format: str,
    content_type: str | None,
    concurrency: int,
    waiting: int,
    seconds: float,
    max_reply: int,
    count: int | None,
    reconnect: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Provide a service: start COMMAND for each request. COMMAND reads the payload from its standard input; its
    standard output is the reply. If it fails, takes too long or writes too much, the reply is an error. It runs without
    a shell; use sh -c '…' for one, and never put the payload into its text. It has the request in environment
    variables: REQUEST_SERVICE, REQUEST_FROM (a routing id), REQUEST_TYPE, REQUEST_ID. A line is printed for each
    request. When the connection is lost, the service ends, unless you say --reconnect.
    """
    import asyncio

    from bussrv.cli.traffic.answering import AnsweringService, CommandLimits
    from bussrv.cli.traffic.joining import joined
    from bussrv.client.aio import connect

    exclude(quiet=quiet, json=as_json)
    limits = CommandLimits(list(words), concurrency, waiting, seconds, max_reply)
    with AnsweringService(service, limits, content_type, _report(quiet=quiet, as_json=as_json)) as running:
        bus = joined(connect, connection, wire_format, reconnect=reconnect, on_state=running.happened.put_nowait)
        asyncio.run(running.serve(bus, count))
    return 0


def _report(*, quiet: bool, as_json: bool) -> Callable[[Answered], None]:
    from bussrv.cli.show import output

    def report(answered: Answered) -> None:
        if quiet:
            return
        if as_json:
            output.json_line(answered.as_json())
        else:
            output.line(str(answered))
        output.flush()

    return report
