"""``bussrv why``: why a client was given an object, or was not."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bussrv.cli.command import command
from bussrv.cli.failure import DONE, FAILED, NO
from bussrv.cli.parameters import JOURNAL, MOMENT, json_option, need_one, seconds
from bussrv.terminal import one_line

if TYPE_CHECKING:
    from bussrv.journal.moments import Moment
    from bussrv.why.past import Past
    from bussrv.why.question import Question

FILE = click.Path(path_type=Path)


@command(
    examples=(
        """bussrv why bussrv-journal --at 9 --object '{"type":"text/plain"}'""",
        "bussrv why bussrv-journal --service doorbell --json",
    ),
    statuses={0: "done", 1: "no session is called so", 2: "it could not be done"},
)
@click.argument("journals", metavar="JOURNAL...", type=JOURNAL, nargs=-1, required=True)
@click.option(
    "--at", metavar="TIME|SEQ", type=MOMENT, help="A time, or the last record that counts.  [default: the end]"
)
@click.option("--object", "shown", metavar="JSON", help="An object with these attributes; size: bytes of payload.")
@click.option("--service", metavar="NAME", help="A publication on this service, by a client of any wire format.")
@click.option("--request", metavar="NAME", help="A request for this service.")
@click.option("--type", "content_type", metavar="TYPE", help="With --service: the content type.")
@click.option(
    "--from", "sender", metavar="WHO", help="The sender.  [default: a provider of the service, or else somebody]"
)
@click.option("--to", metavar="WHO", help="Only these sessions.")
@click.option("--turn", metavar="WHO", help="Whose turn it was, of several providers, or sessions that share.")
@click.option("--asker", metavar="WHO", help="With a reply of --from: who asked.")
@click.option(
    "--window",
    metavar="S",
    type=seconds(0),
    default=60,
    show_default=True,
    help="Seconds before and after the moment in which reasons are looked for.",
)
@json_option
@click.option("--pseudonyms", metavar="KEYFILE", type=FILE, help="Judge by the names and addresses that it leads to.")
def why(journals: Sequence[Path | str], **given: Any) -> int:
    """For each session that was present at a moment, say whether it was given an object, a publication or a request,
    and why, with the record that made it so. The decisions are made again, by the part of the server that made them,
    from the journal. Give the journals of all linked servers to learn what their sessions were given. WHO is a user, a
    name, a routing id, an address or the id of a session. JOURNAL is a journal directory, or the URL that it is shipped
    to.
    """
    from msgspec.json import encode

    from bussrv.cli.show.why import lines
    from bussrv.errors import JournalError
    from bussrv.inspection.words import write
    from bussrv.why.answer import answer

    need_one(object=given["shown"], service=given["service"], request=given["request"])
    if given["content_type"] is not None and given["service"] is None:
        raise click.UsageError("--type goes with --service.")
    try:
        question = _question(given).knowing(given["turn"], given["asker"])
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    try:
        found = answer(_pasts(journals, given["at"], given["window"], given["pseudonyms"]), question, given["to"])
    except JournalError as error:
        sys.stdout.flush()
        print(f"bussrv why: {one_line(str(error))}", file=sys.stderr)
        return FAILED
    if given["as_json"]:
        write(encode(found) + b"\n")
    else:
        write("".join(f"{one_line(each)}\n" for each in lines(found)).encode("utf-8", "backslashreplace"))
    return DONE if found.sessions else NO


def _question(given: dict[str, Any]) -> Question:
    from bussrv.values import OCTET_STREAM
    from bussrv.why.question import about_object, about_publication, about_request

    if given["shown"] is not None:
        return about_object(given["shown"], given["sender"])
    if given["request"] is not None:
        return about_request(given["request"], given["sender"])
    return about_publication(given["service"], given["content_type"] or OCTET_STREAM, given["sender"])


def _pasts(journals: Sequence[Path | str], at: Moment | None, window: float, pseudonyms: Path | None) -> list[Past]:
    """What the journals of one server or several know of a moment.

    :param at: ``None``: the end.
    :param window: seconds before and after the moment in which reasons are looked for.
    :param pseudonyms: a file of keys, by which the names in the journal are known.
    :raises JournalError: a journal cannot be read, or does not reach as far back or forth.
    """
    from bussrv.archive.fetching import at_hand
    from bussrv.errors import JournalError
    from bussrv.inspection.commands import Names
    from bussrv.journal.moments import END, Moment
    from bussrv.why.past import SECOND, past_of

    moment = at or END
    if moment.seq is not None and len(journals) > 1:
        raise JournalError(f"{moment} is a record of one journal. To look into several journals, give a time instead")
    moments = [moment]
    if moment.time is not None:
        around = int(window * SECOND)
        moments += [Moment(time=moment.time - around), Moment(time=moment.time + around)]
    with at_hand(journals, moments) as directories:
        pasts = [past_of(each, moment, window) for each in directories]
    servers = [each.server for each in pasts]
    for each in servers:
        if servers.count(each) > 1:
            raise JournalError(f"two of these are journals of the same server, {each}")
    if pseudonyms is not None:
        names = Names(pseudonyms)
        for past in pasts:
            past.rename(names.reveal, names.reveal_rules)
    return pasts
