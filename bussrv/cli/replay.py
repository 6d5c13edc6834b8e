"""``bussrv replay``: what journals of many servers said at any moment, and what happened to somebody, and why."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from bussrv.errors import BussrvError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bussrv.audit.replay.past import Past
    from bussrv.audit.replay.registry import Registry
    from bussrv.journal.moments import Moment

SUMMARY = "what was there at a moment, and what happened to somebody"

DESCRIPTION = """
Say what journals tell: the sessions, services and subscriptions at a moment, what differs between two moments, or what
happened to one client or service, and why. For the journals of many servers, and large ones. Needs PySpark (pip install
'bussrv[audit]') and Java 17 or newer. Exit status: 0 done, 1 something differs or nothing is known of that name, 2 it
could not be done.
"""

DONE, FOUND, FAILED = 0, 1, 2
BROKEN_PIPE = 128 + signal.SIGPIPE

Row = dict[str, Any]
Parsed = TypeVar("Parsed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    commands = parser.add_subparsers(dest="replay_command", metavar="COMMAND", required=True)
    at = commands.add_parser("at", help="the registry at a moment", description="The registry at a moment.")
    at.add_argument("moment", metavar="MOMENT", type=_moment, help="a time such as 2026-11-21T14:02:03Z, or a record")
    at.set_defaults(do=_at)
    diff = commands.add_parser("diff", help="what differs between two moments", description="What differs.")
    diff.add_argument("first", metavar="MOMENT", type=_moment, help="a time such as 2026-11-21T14:02:03Z, or a record")
    diff.add_argument("second", metavar="MOMENT", type=_moment, help="another one")
    diff.set_defaults(do=_diff)
    timeline = commands.add_parser("timeline", help="what happened to a client or a service", description="And why.")
    timeline.add_argument(
        "name", metavar="NAME", help="a service, or the session, routing id, user, address or peer of a client"
    )
    timeline.add_argument("--since", metavar="TIME", type=_time, help="leave out what was before")
    timeline.add_argument("--until", metavar="TIME", type=_time, help="leave out what was then or later")
    timeline.set_defaults(do=_timeline)
    for each in (at, diff, timeline):
        each.add_argument("journals", nargs="+", metavar="JOURNAL", help="a journal directory, or its URL")
        each.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Do it, and return the exit status."""
    try:
        status: int = arguments.do(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Nobody reads any more, which `| head` means to do; the interpreter would complain when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except BussrvError as error:
        said = str(error)
    except OSError as error:
        said = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    print(f"bussrv replay: {said}", file=sys.stderr)
    return FAILED


def _moment(text: str) -> Moment:
    from bussrv.journal.moments import parse_moment

    return _parsed(parse_moment, text)


def _time(text: str) -> int:
    from bussrv.journal.moments import parse_instant

    return _parsed(parse_instant, text)


def _parsed(parse: Callable[[str], Parsed], text: str) -> Parsed:
    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


# The registry at a moment, and what differs between two.


def _at(arguments: argparse.Namespace) -> int:
    from bussrv.audit.replay.past import check_moment, open_past

    check_moment(arguments.journals, arguments.moment)
    with open_past(arguments.journals, [arguments.moment.time]) as past:
        (found,) = _registries(past, [arguments.moment])
        kinds = {name: _rows(table) for name, table in found._asdict().items()}
    if arguments.json:
        _write_json({kind: [_with_values(row) for row in rows] for kind, rows in kinds.items()})
        return DONE
    _write(f"At {arguments.moment}:" if any(kinds.values()) else f"At {arguments.moment} nothing was there.")
    for kind, rows in kinds.items():
        for row in rows:
            _write(_line(kind, row))
    return DONE


def _diff(arguments: argparse.Namespace) -> int:
    from bussrv.audit.replay.past import check_moment, open_past

    moments = [arguments.first, arguments.second]
    for each in moments:
        check_moment(arguments.journals, each)
    with open_past(arguments.journals, [each.time for each in moments]) as past:
        from bussrv.audit.replay.registry import difference

        before, after = _registries(past, moments)
        kinds = {name: _rows(table) for name, table in difference(before, after)._asdict().items()}
    if arguments.json:
        _write_json({name: [_changed(row) for row in rows] for name, rows in kinds.items()})
    else:
        for line in _diff_lines(moments, kinds):
            _write(line)
    return FOUND if any(kinds.values()) else DONE


def _changed(row: Row) -> Row:
    sides = {side: row[side] and _with_values(row[side]) for side in ("before", "after")}
    return {"change": row["change"], **sides}


def _with_values(row: Row) -> Row:
    """A row with values where it holds JSON."""
    import msgspec

    texts = {name: row[name] for name in ("interest", "options") if row.get(name) is not None}
    return {**row, **{name: msgspec.json.decode(text) for name, text in texts.items()}}


def _diff_lines(moments: Sequence[Moment], kinds: dict[str, list[Row]]) -> Iterator[str]:
    if not any(kinds.values()):
        yield f"Nothing differs between {moments[0]} and {moments[1]}."
        return
    yield f"From {moments[0]} to {moments[1]}:"
    for kind, rows in kinds.items():
        for sign, change in (("+", "came"), ("-", "went"), ("~", "changed")):
            for row in rows:
                if row["change"] == change:
                    sides = [_line(kind, each) for each in (row["before"], row["after"]) if each is not None]
                    yield f"{sign} {' -> '.join(sides)}"


def _registries(past: Past, moments: Sequence[Moment]) -> list[Registry]:
    """The registries at moments, their timestamps as microseconds."""
    from bussrv.audit.replay.past import ReplayFailed
    from bussrv.audit.replay.registry import Registry, registry_at

    asked = max((moment.seq for moment in moments if moment.seq is not None), default=None)
    if asked is not None:
        ((last,),) = past.records.selectExpr("max(seq)").collect()
        if last is None or asked > last:
            raise ReplayFailed(f"the journal ends with record {last}, before record {asked}")
    return [Registry(*map(_micros, registry_at(past.records, moment, past.store.keep))) for moment in moments]


def _line(kind: str, row: Row) -> str:
    """A row as ``bussrv journal diff`` shows one."""
    heads = {
        "sessions": ["session", _word(row["session"])],
        "services": ["service", _word(row.get("service"))],
        "subscriptions": ["subscription", *(["objects"] if row.get("service") is None else [])],
    }
    left_out = {"sessions": {"session", "persistent", "opened"}, "services": {"service", "since"}}
    words = heads[kind]
    for name, value in row.items():
        if name in left_out.get(kind, {"since"}) or value is None or value in ([], ""):
            continue
        words.append(f"{name}={_word(','.join(value) if isinstance(value, list) else value)}")
    return " ".join(words)


# The timeline.


def _timeline(arguments: argparse.Namespace) -> int:
    from bussrv.audit.replay.past import open_past
    from bussrv.audit.replay.telling import sentences
    from bussrv.journal.record import format_time

    with open_past(arguments.journals) as past:
        from bussrv.audit.period import Period
        from bussrv.audit.replay.timeline import similar_names, timeline

        period = Period(arguments.since, arguments.until)
        told = timeline(past.records, arguments.name, past.store.keep, period)
        is_empty = True
        for row in map(_plain, _micros(told).toLocalIterator()):
            is_empty = False
            said = sentences(row, _word)
            if arguments.json:
                shown = {name: value for name, value in row.items() if value is not None}
                _write_json({**shown, "sentence": said})
            else:
                _write(f"{format_time(row['moment'])} {_word(row['server'])} {row['seq']} {said}")
        if not is_empty:
            return DONE
        near = similar_names(past.records, arguments.name)
    _complain(arguments, near)
    return FOUND


def _complain(arguments: argparse.Namespace, similar: Sequence[str]) -> None:
    name = arguments.name
    if name in similar:
        said = f"nothing happened to {_word(name)} in that time"
    elif similar:
        said = f"nothing is known of {_word(name)}; there is {', '.join(map(_word, similar))}"
    else:
        said = f"nothing is known of {_word(name)}"
    print(f"bussrv replay: {said}", file=sys.stderr)


# Rows and lines.


def _micros(table: DataFrame) -> DataFrame:
    """The same with timestamps as UTC microseconds: Spark would give them in the local time of this machine."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

    columns = [F.unix_micros(name).alias(name) if kind == "timestamp" else F.col(name) for name, kind in table.dtypes]
    return table.select(*columns)


def _rows(table: DataFrame) -> list[Row]:
    """All rows, in an order that depends on nothing but what is in them."""
    order = [name for name, kind in table.dtypes if name in {"server", "service", "session"}]
    return [_plain(row) for row in table.orderBy(*sorted(order)).collect()]


def _plain(row: Any) -> Row:
    plain: Row = row.asDict(recursive=True)
    return plain


def _word(value: object) -> str:
    from bussrv.inspection.words import word

    return word(value)


def _write(line: str) -> None:
    from bussrv.inspection.words import write

    write(f"{line}\n".encode())


def _write_json(value: object) -> None:
    import msgspec

    from bussrv.inspection.words import write

    write(msgspec.json.encode(value) + b"\n")
