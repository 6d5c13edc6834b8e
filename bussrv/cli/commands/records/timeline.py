"""``bussrv timeline``: the history of one client or service, from the journals of one or more servers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any

import click

from bussrv.cli.command import command
from bussrv.cli.failure import DONE, FAILED, NO
from bussrv.cli.parameters import JOURNAL, period_options
from bussrv.errors import BussrvError
from bussrv.terminal import word


@command(
    examples=(
        "bussrv timeline doorbell bussrv-journal",
        "bussrv timeline doorbell bussrv-journal --since 2026-11-20T19:30 --zone Europe/Berlin",
    ),
    statuses={0: "done", 1: "no record concerns that name", 2: "failed"},
)
@click.argument("name", metavar="NAME")
@click.argument("journals", nargs=-1, required=True, metavar="JOURNAL...", type=JOURNAL)
@period_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def timeline(
    name: str, journals: Sequence[Path | str], since: int | None, until: int | None, zone: tzinfo, as_json: bool
) -> int:
    """Show every record that concerns one client or service, in order, each with its cause. Reads the journals of one
    or more servers, also large ones, and merges them by time. NAME is a service, or the session, routing id, user,
    program or MQTT client id, address or peer of a client. JOURNAL is a journal directory, or the URL that it is
    shipped to.
    """
    from bussrv.inspection.timeline.journals import Period
    from bussrv.inspection.timeline.query import Nobody, timeline
    from bussrv.inspection.words import write

    try:
        for row in timeline(journals, name, Period(since, until)):
            write(_line(row, as_json, zone) + b"\n")
        sys.stdout.flush()
        return DONE
    except Nobody as nobody:
        _complain(_nothing_found(name, nobody.similar))
        return NO
    except BussrvError as error:
        _complain(str(error))
        return FAILED


def _line(row: Mapping[str, Any], as_json: bool, zone: tzinfo) -> bytes:
    import msgspec

    from bussrv.inspection.timeline.narration import sentences
    from bussrv.journal.instants import time_in

    said = sentences(row, word, zone)
    if not as_json:
        return f"{time_in(row['moment'], zone)} {word(row['server'])} {row['seq']} {said}".encode()
    shown = {name: value for name, value in row.items() if value is not None}
    return msgspec.json.encode({**shown, "sentence": said})


def _nothing_found(name: str, similar: Sequence[str]) -> str:
    if name in similar:
        return f"no record concerns {word(name)} in that time"
    if similar:
        return f"no record concerns {word(name)}; similar names are {', '.join(map(word, similar))}"
    return f"no record concerns {word(name)}"


def _complain(message: str) -> None:
    print(f"bussrv timeline: {message}", file=sys.stderr)
