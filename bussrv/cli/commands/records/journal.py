"""``bussrv journal``: commands that read, verify and seal a journal, also while a server writes it; or make one up."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from bussrv.audit.arguments import Converted
from bussrv.cli.command import CommandGroup
from bussrv.cli.failure import DONE, FAILED, NO
from bussrv.cli.parameters import (
    EVENTS,
    JOURNAL,
    MOMENT,
    PLACE,
    exclude,
    json_option,
    need_one,
    period_options,
    records,
)
from bussrv.errors import JournalError, SpoolError, os_errors_as
from bussrv.terminal import cleaned

ALL = "all"

FILE = click.Path(path_type=Path)
CANNOT = {2: "it could not be done"}


_directory = click.argument("directory", metavar="DIR", type=FILE)
_url = click.argument("url", metavar="URL")
_public_key = click.option(
    "--public-key",
    metavar="FILE",
    type=FILE,
    help="The public key that the seals must lead back to, from a copy that is kept elsewhere.",
)


def _witness_options(command: Callable[..., int]) -> Callable[..., int]:
    """Declare the options about what others know of a journal."""
    for option in (
        click.option(
            "--checkpoint",
            "checkpoints",
            metavar="FILE",
            type=FILE,
            multiple=True,
            help="A checkpoint, or a proof, that was kept elsewhere: the journal must hold it; may be repeated.",
        ),
        click.option("--quorum", metavar="N", type=records(1), help="How many of the witnesses.  [default: all]"),
        click.option(
            "--witness-key",
            "witness_keys",
            metavar="VKEY",
            multiple=True,
            help="The verifier key of a witness that must have cosigned the records; may be repeated.",
        ),
    ):
        command = option(command)
    return command


_journals = click.argument("journals", metavar="JOURNAL...", type=JOURNAL, nargs=-1, required=True)
_pseudonyms = click.option(
    "--pseudonyms", metavar="KEYFILE", type=FILE, help="Show the names and addresses that it leads to."
)


class JournalGroup(CommandGroup):
    """The commands. If a journal cannot be used, they print one sentence."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except (JournalError, SpoolError) as error:
            sys.stdout.flush()
            print(f"bussrv journal: {error}", file=sys.stderr)
            return FAILED


journal = JournalGroup(
    name="journal",
    help="Show the last records of a journal, the registry at a moment, or the differences between two moments. Verify "
    "a journal, seal it, make keys for seals, forget a person, or make up a journal. A server may be writing the "
    "journal meanwhile.",
)


@journal.command(
    short_help="the last records",
    examples=(
        "bussrv journal tail bussrv-journal",
        "bussrv journal tail bussrv-journal --service doorbell -n 3",
        "bussrv journal tail bussrv-journal --around 28",
        "bussrv journal tail bussrv-journal --user ann --since yesterday",
    ),
    statuses={0: "done", **CANNOT},
)
@_directory
@click.option("-f", "--follow", is_flag=True, help="Continue with later records, until Ctrl-C.")
@click.option(
    "-n", "count", metavar="N", type=records(0), help="The number of records.  [default: 10, with --since all]"
)
@click.option(
    "--around", metavar="PLACE", type=PLACE, help="Those around a place, also if it is damaged: SEQ, TIME or FILE:LINE."
)
@click.option("--session", metavar="ID", help="Only those about this session.")
@click.option("--service", metavar="NAME", help="Only those about this service.")
@click.option("--event", "events", metavar="NAME[,NAME]", type=EVENTS, help="Only these events.")
@click.option("--protocol", metavar="NAME", help="Only those of this wire format.")
@click.option("--user", metavar="NAME", help="Only those of clients that proved or claimed to be this user.")
@click.option("--address", metavar="HOST", help="Only those of clients at this address, with its port or without it.")
@period_options
@click.option("--json", "as_json", is_flag=True, help="The lines as they stand in the journal.")
@_pseudonyms
def tail(**given: Any) -> int:
    """Show the last records of a journal, one on a line: time, number, event, and the client or service that it
    concerns. -n counts the records that pass the filters. There are colours only on a terminal. --around checks
    nothing, and also shows lines that are not records.
    """
    from bussrv.inspection.commands import Tail, tail

    exclude(json=given["as_json"], pseudonyms=given["pseudonyms"])
    for name in ("follow", "session", "service", "event", "protocol", "user", "address", "since", "until"):
        exclude(around=given["around"], **{name: given["events" if name == "event" else name]})
    exclude(follow=given["follow"], until=given["until"])
    if given["count"] is None:
        given["count"] = 10 if given["since"] is None else sys.maxsize
    tail(Tail(**given))
    return 0


@journal.command(
    short_help="the registry at a moment",
    examples=("bussrv journal state bussrv-journal --at 9", "bussrv journal state bussrv-journal --json"),
    statuses={0: "done", **CANNOT},
)
@_journals
@click.option(
    "--at", metavar="TIME|SEQ", type=MOMENT, help="A time, or the last record that counts.  [default: the end]"
)
@click.option("--json", "as_json", is_flag=True, help="As JSON; of several journals, by the id of the server.")
@_pseudonyms
def state(journals: Sequence[Path | str], at: Any, as_json: bool, pseudonyms: Path | None) -> int:
    """Show the sessions, services and subscriptions at a moment. The moment is a time in UTC, the number of a record
    (the last one that counts), or the end. With several journals, each server has a part of its own. Records that
    retention removed cannot be shown. JOURNAL is a journal directory, or the URL that it is shipped to.
    """
    from bussrv.cli.show import registry
    from bussrv.inspection.commands import states, write_json

    found = states(journals, at, pseudonyms)
    if as_json:
        write_json(found)
    else:
        registry.show(found)
    return 0


@journal.command(
    short_help="the differences between two moments",
    examples=("bussrv journal diff bussrv-journal 29 30",),
    statuses={0: "nothing differs", 1: "something differs", 2: "a journal could not be read"},
)
@_journals
@click.argument("first", metavar="A", type=MOMENT)
@click.argument("second", metavar="B", type=MOMENT)
@json_option
def diff(journals: Sequence[Path | str], first: Any, second: Any, as_json: bool) -> int:
    """Show which sessions, services and subscriptions came, went or changed between two moments: A and B are times such
    as 2026-11-21T14:02:03Z, or numbers of records. With several journals, the moments are times, and each server has a
    part of its own. JOURNAL is a journal directory, or the URL that it is shipped to.
    """
    from bussrv.inspection.commands import diff

    return diff(journals, first, second, as_json=as_json)


@journal.command(
    short_help="find changes since its server wrote it",
    examples=("bussrv journal verify bussrv-journal --public-key hall.key.pub",),
    statuses={0: "no change was found", 1: "something was changed or is missing", 2: "it could not be read"},
)
@_directory
@_public_key
@click.option(
    "--includes",
    metavar="HASH",
    multiple=True,
    help="A seal that was noted elsewhere, such as in the log of the server, and must be there; may be repeated.",
)
@click.option(
    "--sealed",
    is_flag=True,
    help="Report unsealed records as a fault, for a journal whose server has stopped: a stop seals everything.",
)
@_witness_options
@json_option
def verify(
    directory: Path,
    public_key: Path | None,
    includes: Sequence[str],
    sealed: bool,
    as_json: bool,
    **known: Any,
) -> int:
    """Check whether a journal, or a copy of one, is unchanged since its server wrote it, and name every line, record
    and seal that is not. Without --public-key, this finds accidents only: an attacker who can write to the directory
    can make all lines and seals anew. With --public-key, it finds every change of sealed records. With --includes, it
    also finds that records up to that seal were cut off. An attacker who has the key of the server can make another
    history: with --witness-key, records that no witness cosigned are faults; with --checkpoint, another history is,
    and one that was cut off or rolled back.
    """
    from bussrv.inspection.proof import run_verify
    from bussrv.journal.others import read_others

    others = read_others(**known, now=time.time_ns() // 1000)
    return run_verify(directory, public_key, includes, sealed=sealed, as_json=as_json, others=others)


@journal.command(
    short_help="the newest checkpoint, for tools that exist",
    examples=(
        "bussrv journal checkpoint bussrv-journal",
        "bussrv journal checkpoint bussrv-journal --verifier-key",
    ),
    statuses={0: "done", 1: "there is none, or it is not signed", **CANNOT},
)
@_directory
@click.option("--verifier-key", is_flag=True, help="Print the key that witnesses and other tools check it with.")
@json_option
def checkpoint(directory: Path, verifier_key: bool, as_json: bool) -> int:
    """Print the newest checkpoint of a journal: how many records it has, and the root hash of the tree of all of
    them. It is a signed note, as C2SP describes it, with the signatures of witnesses. Keep it elsewhere: with it,
    `bussrv journal verify --checkpoint` finds that the journal was cut or rewritten since.
    """
    from bussrv.inspection.checkpoint import run_checkpoint

    exclude(verifier_key=verifier_key, json=as_json)
    return run_checkpoint(directory, verifier_key=verifier_key, as_json=as_json)


@journal.command(
    short_help="prove single records without the others",
    examples=(
        "bussrv journal prove bussrv-journal 28 -o proof.zip",
        "bussrv journal prove bussrv-journal --about anna -o anna.zip",
    ),
    statuses={0: "done", **CANNOT},
)
@_directory
@click.argument("seq", metavar="[SEQ]", type=records(1), required=False)
@click.option("-o", "--output", metavar="FILE", type=FILE, required=True, help="The file to make.")
@click.option("--about", metavar="NAME", help="All records about this user, client, service or address.")
@period_options
@click.option("--most", metavar="N", type=records(1), default=10_000, show_default=True, help="The most records.")
@_pseudonyms
@click.option("--time-stamp", metavar="FILE", type=FILE, help="An RFC 3161 time stamp of the checkpoint.")
@click.option("--witness-key", "witnesses", metavar="VKEY", multiple=True, help="A witness, for the file of keys.")
def prove(
    directory: Path, output: Path, time_stamp: Path | None, witnesses: Sequence[str], zone: Any, **given: Any
) -> int:
    """Prove that records are in a journal, without the others. FILE is a ZIP file of the records, their paths to the
    root of the newest checkpoint, that checkpoint with its signatures, the keys, a README, and a program that checks
    all of it without bussrv. If its name ends with .tlog-proof, it is the proof of one record alone, as C2SP has it.
    A journal with pseudonyms is proved with pseudonyms; --pseudonyms only finds the records --about a person.
    """
    from bussrv.inspection.proving import Wanted, run_prove

    for name in ("about", "since", "until"):
        exclude(**{"SEQ": given["seq"], name: given[name]})
    if not any(given[name] is not None for name in ("seq", "about", "since", "until")):
        raise click.UsageError("name a record by SEQ, or records with --about, --since or --until.")
    return run_prove(directory, Wanted(**given), output, stamp=time_stamp, witnesses=witnesses)


@journal.command(
    "check-proof",
    short_help="check a proof of records",
    examples=("bussrv journal check-proof proof.zip",),
    statuses={0: "everything is right", 1: "something is wrong", 2: "it could not be read"},
)
@click.argument("proof", metavar="FILE", type=FILE)
@click.option("--log-key", "log", metavar="VKEY", help="The verifier key of the journal, from elsewhere.")
@click.option("--witness-key", "witnesses", metavar="VKEY", multiple=True, help="A witness that must have cosigned.")
@click.option("--quorum", metavar="N", type=records(1), help="How many of the witnesses.  [default: all]")
@click.option("--tsa-ca", "authority", metavar="FILE", type=FILE, help="Check the time stamp, too, by this authority.")
def check_proof(proof: Path, **trust: Any) -> int:
    """Check a file that `bussrv journal prove` made, and print the lines of the records that it proves. No journal is
    needed, and no network.
    """
    from bussrv.inspection.proving import Trust, run_check

    return run_check(proof, Trust(**{**trust, "witnesses": tuple(trust["witnesses"])}))


@journal.command(
    short_help="seal the records that are not sealed yet",
    examples=("bussrv journal seal bussrv-journal --key hall.key",),
    statuses={0: "done", **CANNOT},
)
@_directory
@click.option("--key", metavar="FILE", type=FILE, help="The private key, if no server with it is running.")
@json_option
def seal(directory: Path, key: Path | None, as_json: bool) -> int:
    """Seal all records of a journal. If a server is running, ask it to end its segment; it does so within seconds. If
    none is running, seal here, with --key if the seals are signed.
    """
    from bussrv.inspection.proof import run_seal

    run_seal(directory, key, as_json=as_json)
    return 0


@journal.command(
    short_help="ship closed segments to an object store",
    examples=("bussrv journal ship bussrv-journal file:archive/hall",),
    statuses={
        0: "all closed segments are shipped",
        1: "some are not, or something here or there is not what it should be",
        **CANNOT,
    },
)
@_directory
@_url
@click.option("-f", "--follow", is_flag=True, help="Continue with segments as they are closed, until Ctrl-C.")
@_public_key
@json_option
def ship(directory: Path, url: str, follow: bool, public_key: Path | None, as_json: bool) -> int:
    """Write the closed segments of a journal, and the lines of its manifest about them, to an object store. Each is
    held against its seal here, read back, and held against its seal again. Then the file DIR/shipped says so: see the
    option --journal-retain-shipped of the server. The server may be running. URL is the place for this journal alone,
    such as s3://BUCKET/PATH or file:/PATH. Nothing there is overwritten except the manifest, by one that goes on.
    """
    import msgspec

    from bussrv.archive import shipping
    from bussrv.archive.store import open_store
    from bussrv.inspection.words import write
    from bussrv.journal.keys import read_public
    from bussrv.journal.manifest import last_seq

    def tell(seal: Any, at: str) -> None:
        fields = {"segment": seal.segment, "last_seq": last_seq(seal), "bytes": seal.bytes, "url": at}
        said = f"shipped {at}, up to record {last_seq(seal)}".encode(errors="backslashreplace")
        write((msgspec.json.encode(fields) if as_json else said) + b"\n")
        sys.stdout.flush()

    trusted, store = None if public_key is None else read_public(public_key), open_store(url)
    with shipping.alone(directory):
        shipper = shipping.Shipper(directory, store, tell, trusted=trusted)
        try:
            if follow:
                shipping.follow(shipper, _complain)
            backlog = shipper.look()
        except shipping.Mismatch as error:
            _complain(str(error))
            return NO
    if not as_json:
        if removed := shipper.removed():
            write(f"note: segments that retention removed here, and that are not there: {removed}\n".encode())
        write(f"{store.url}: {backlog}\n".encode(errors="backslashreplace"))
    return DONE if not backlog.segments else NO


def _complain(said: str) -> None:
    print(f"bussrv journal ship: {cleaned(said)}", file=sys.stderr, flush=True)


@journal.command(
    short_help="copy a journal while its server writes it",
    examples=("bussrv journal backup bussrv-journal backups/today",),
    statuses={0: "it is there, and no change was found", 1: "something was changed or is missing", **CANNOT},
)
@_directory
@click.argument("copy", metavar="COPY", type=FILE)
@_public_key
@json_option
def backup(directory: Path, copy: Path, public_key: Path | None, as_json: bool) -> int:
    """Copy a journal, also while its server is running, and verify the copy, as `bussrv journal verify` does. COPY is
    made when everything is there and verified; until then the segments are in COPY.fetching. It has every record that
    was written before the command began. The keys of the seals and of pseudonyms, and the spool, are not in it. To
    restore it, stop the server, move DIR away, and copy COPY to DIR in the same way.
    """
    from bussrv.archive.fetching import back_up, staging
    from bussrv.inspection.proof import show_report
    from bussrv.journal.keys import read_public

    report = back_up(directory, copy, None if public_key is None else read_public(public_key))
    return show_report(staging(copy) if report.faults else copy, report, as_json=as_json)


@journal.command(
    short_help="fetch a journal from an object store",
    examples=("bussrv journal fetch file:archive/hall restored",),
    statuses={0: "it is there, and no change was found", 1: "something was changed or is missing", **CANNOT},
)
@_url
@_directory
@click.option("--all", "everything", is_flag=True, help="Also the segments that retention removed from the server.")
@_public_key
@json_option
def fetch(url: str, directory: Path, everything: bool, public_key: Path | None, as_json: bool) -> int:
    """Fetch a journal that was shipped to URL, and verify it, as `bussrv journal verify` does. DIR is made when
    everything is there and verified, and a server can start from it. Until then the segments are in DIR.fetching. If
    this is interrupted, the next call goes on. Segments that retention removed from the disk of the server are left
    out, unless --all is given: a server that starts from DIR would remove them again.
    """
    from bussrv.archive.fetching import fetch, staging
    from bussrv.archive.store import open_store
    from bussrv.inspection.proof import show_report
    from bussrv.journal.keys import read_public

    trusted = None if public_key is None else read_public(public_key)
    report = fetch(open_store(url), directory, trusted, everything=everything)
    return show_report(staging(directory) if report.faults else directory, report, as_json=as_json)


@journal.command(
    short_help="make a key for seals",
    examples=("bussrv journal keygen keys/hall.key",),
    statuses={0: "done", **CANNOT},
)
@click.argument("key", metavar="FILE", type=FILE)
@click.option(
    "--replaces",
    metavar="FILE",
    type=FILE,
    help="The private key that the new one takes the place of, in the journal --of.",
)
@click.option("--of", metavar="DIR", type=FILE, help="The journal directory; no server may be running there.")
@json_option
def keygen(key: Path, replaces: Path | None, of: Path | None, as_json: bool) -> int:
    """Make a pair of keys for signed seals: a private one for the server (--journal-key), which must lie outside the
    journal directory, and a public one, FILE.pub, for verification. Existing files are never overwritten. With
    --replaces and --of, the new key takes the place of the key of a journal, while no server is running.
    """
    from bussrv.inspection.proof import run_keygen

    run_keygen(key, replaces, of, as_json=as_json)
    return 0


@journal.command(
    short_help="forget a person whom the journal knows by a pseudonym",
    examples=(
        "bussrv journal forget pseudonyms --actor ann",
        "bussrv journal forget pseudonyms --spool bussrv-journal.spool --actor ann",
        "bussrv journal forget --spool bussrv-journal.spool --session sensor-7",
    ),
    statuses={0: "done", 1: "there is no such identity", 2: "a file could not be read or written"},
)
@click.argument("file", metavar="[KEYFILE]", type=FILE, required=False)
@click.option("--spool", metavar="DIR", type=FILE, help="Remove what is kept in this spool, too.")
@click.option("--actor", metavar="NAME", help="The name of a user, proved or claimed.")
@click.option("--peer", metavar="HOST", help="An IP address.")
@click.option("--session", metavar="KEY", help="A session that outlives its connections; only with --spool.")
@json_option
def forget(file: Path | None, spool: Path | None, as_json: bool, **whom: str | None) -> int:
    """Destroy the key that connects a pseudonym in a journal with a person or an address. KEYFILE is the file that
    --journal-pseudonyms of the server names. The journal is not changed. With --spool also remove what the server keeps
    for the sessions of that user or address, or for one session. DIR is the directory beside the journal that is named
    after it, with .spool at the end. The server may be running.
    """
    from bussrv.inspection.commands import Unwanted, forget

    need_one(**whom)
    if file is None and spool is None:
        raise click.UsageError("name a KEYFILE, or a spool with --spool.")
    if file is not None and whom["session"] is not None:
        raise click.UsageError("--session goes with --spool, without a KEYFILE.")
    return forget(Unwanted(**whom), file, spool, as_json=as_json)


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


@journal.command(
    short_help="make up a journal",
    examples=("bussrv journal synth made-up --events 2000 --faults session-never-closed",),
    statuses={0: "done", 2: "it could not be done"},
)
@_directory
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
@click.option("--key", metavar="FILE", type=FILE, help="The private key that seals are signed with.")
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
    with os_errors_as(JournalError, f"cannot write {directory}"):
        made = write_journal(directory, key=None if key is None else read_private(key), **how)
    for each in made:
        sys.stdout.write(msgspec.json.encode(each).decode() + "\n")
    return 0
