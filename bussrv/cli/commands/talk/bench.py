"""``bussrv bench``: measure a server that is started for it."""

from __future__ import annotations

from typing import Any

import click

from bussrv.cli.command import command
from bussrv.cli.parameters import seconds, whole


@command(
    examples=("bussrv bench", "bussrv bench --seconds 0.5 --subscribers 2 --json"),
    statuses={0: "done", 2: "the server does not start"},
)
@click.option(
    "--seconds",
    metavar="S",
    type=seconds(0.1, 3600.0),
    default=3.0,
    help="How long each measurement takes.  [default: 3]",
)
@click.option(
    "--size",
    metavar="BYTES",
    type=whole(16, 1 << 20),
    default=100,
    show_default=True,
    help="The size of payloads.",
)
@click.option(
    "--subscribers",
    metavar="N",
    type=whole(1, 64),
    default=4,
    show_default=True,
    help="How many receive each object.",
)
@click.option(
    "--rate",
    metavar="N",
    type=whole(1, 100_000),
    default=200,
    show_default=True,
    help="Objects a second when the time of delivery is measured.",
)
@click.option(
    "--journal-sync",
    type=click.Choice(("always", "interval", "off")),
    default="always",
    show_default=True,
    help="When a change counts as durable.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def bench(seconds: float, size: int, subscribers: int, rate: int, journal_sync: str, as_json: bool) -> int:
    """Start a server on free ports with a journal of its own, measure it, and remove the journal. It does not touch
    running servers. The clients are programs in Python on this machine: they take a part of its processors, and reach
    their limit before the server does. So the figures compare machines, disks and versions; the server can do more.
    """
    import tempfile
    from pathlib import Path

    from bussrv.cli.failure import Failure
    from bussrv.cli.traffic import measuring
    from bussrv.testing.server import RunningServer

    load = measuring.Load(seconds, size, subscribers, rate)
    with tempfile.TemporaryDirectory(prefix="bussrv-bench-") as directory:
        try:
            server = RunningServer(Path(directory, "journal"), ["--journal-sync", journal_sync, "--server-id", "bench"])
        except RuntimeError as error:
            raise Failure(f"the server does not start: {str(error).splitlines()[-1]}") from error
        with server:
            for measured in measuring.all_of(server.port("objects"), load):
                _show(measured, as_json=as_json)
            server.stop()
    return 0


def _show(measured: dict[str, Any], *, as_json: bool) -> None:
    from bussrv.cli.show import output
    from bussrv.cli.show.figures import amount, duration

    if as_json:
        output.json_line(measured)
    else:
        parts = [f"{measured['measured']:24}"]
        if "per_second" in measured:
            parts.append(f"{amount(measured['per_second']):>8} {measured['unit']}/s")
        if "p50" in measured:
            parts.append(f"p50 {duration(measured['p50'])}, p99 {duration(measured['p99'])}")
        output.line("  ".join(parts))
    output.flush()
