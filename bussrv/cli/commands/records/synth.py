"""``bussrv journal synth``: write a made-up journal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from bussrv.audit.arguments import Converted
from bussrv.cli.command import command
from bussrv.cli.parameters import records
from bussrv.errors import JournalError

ALL = "all"


class Kinds(click.Option):
    """An option whose value is some of the words that a function returns, or all of them. Its help lists them.

    :param what: the noun for one of them, for errors.
    """

    def __init__(self, *arguments: Any, what: str, load: Callable[[], Sequence[str]], **named: Any) -> None:
        self._load = load
        named["type"] = Converted("KIND[,KIND]", lambda text: _chosen(text, what, load()))
        super().__init__(*arguments, **named)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The help."""
        self.help = f"{ALL}, or some of: {', '.join(self._load())}."
        return super().get_help_record(ctx)


def _chosen(text: str, what: str, known: Sequence[str]) -> tuple[str, ...]:
    kinds = tuple(known) if text == ALL else tuple(dict.fromkeys(text.split(",")))
    for kind in kinds:
        if kind not in known:
            raise ValueError(f"there is no {what} {kind!r}; there are {', '.join(known)}")
    return kinds


def _faults() -> Sequence[str]:
    from bussrv.synth.faults import KINDS

    return tuple(KINDS)


def _attacks() -> Sequence[str]:
    from bussrv.synth.scripts import KINDS

    return tuple(KINDS)


@command(
    short_help="make up a journal",
    examples=("bussrv journal synth made-up --events 2000 --faults session-never-closed",),
    statuses={0: "done", 2: "it could not be done"},
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--events",
    metavar="N",
    type=records(1),
    default=100_000,
    show_default=True,
    help="About how many records.",
)
@click.option("--seed", metavar="S", type=int, default=0, show_default=True, help="Another seed gives other days.")
@click.option("--server", metavar="ID", default="hall", show_default=True, help="The id of the server.")
@click.option(
    "--key", metavar="FILE", type=click.Path(path_type=Path), help="The private key that seals are signed with."
)
@click.option("--compress", is_flag=True, help="Compress closed segments.")
@click.option("--faults", cls=Kinds, what="fault", load=_faults, default=(), metavar="KIND[,KIND]")
@click.option("--attacks", cls=Kinds, what="attack", load=_attacks, default=(), metavar="KIND[,KIND]")
def synth(directory: Path, key: Path | None, **how: Any) -> int:
    """Write the journal of a server that never ran, with some days of clients that come and go. The same seed gives the
    same journal. Faults are records that no sound server writes; attacks are things that clients can do. The command
    prints the faults and attacks that it put in, one JSON object a line. It makes DIR, which must not hold a journal.
    """
    import msgspec

    from bussrv.journal.keys import read_private
    from bussrv.journal.segment import list_segments
    from bussrv.synth.journal import write_journal

    if directory.exists() and list_segments(directory):
        raise JournalError(f"{directory} holds a journal already")
    try:
        made = write_journal(directory, key=None if key is None else read_private(key), **how)
    except OSError as error:
        raise JournalError(f"cannot write {directory}: {error.strerror}") from error
    for each in made:
        sys.stdout.write(msgspec.json.encode(each).decode() + "\n")
    return 0
