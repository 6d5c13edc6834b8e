"""Write the reference of the ``bussrv`` command from the commands: ``python docs/_ext/command_line.py``.

The parts between ``<!-- commands -->``, ``<!-- statuses -->`` or ``<!-- connection -->`` and ``<!-- end -->`` are made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from bussrv.cli.command import CONNECTION, OPTIONS, Command, ConnectionOption
from bussrv.cli.failure import MEANINGS
from bussrv.cli.main import BUSSRV, SECTIONS

PAGE = Path(__file__).parents[1] / "reference/command-line.md"

_MARKED = re.compile(r"(?<=<!-- )(commands|statuses|connection)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
_CODE = re.compile(r"(?<![`\w/-])(--[a-z][a-z-]*)")


def with_commands(page: str) -> str:
    """A page with its parts made anew."""
    makers: dict[str, Callable[[], Iterator[str]]] = {
        "commands": _commands,
        "statuses": _statuses,
        "connection": _connection,
    }
    return _MARKED.sub(lambda found: f"{found[1]}{found[2]}\n{''.join(makers[found[1]]())}\n", page)


def all_commands() -> Iterator[tuple[str, str, click.Command]]:
    """Every command, also those of groups: its heading, its words, and itself."""
    for section, rows in SECTIONS.items():
        for name in rows:
            context = click.Context(BUSSRV, info_name="bussrv")
            command = BUSSRV.get_command(context, name)
            assert command is not None
            yield section, name, command
            if isinstance(command, click.Group):
                for inner in command.list_commands(context):
                    found = command.get_command(context, inner)
                    assert found is not None
                    yield section, f"{name} {inner}", found


def _commands() -> Iterator[str]:
    before = ""
    for section, words, command in all_commands():
        if section != before:
            yield f"## {section}\n\n"
            before = section
        if isinstance(command, Command):
            yield from _command(words, command)


def _command(words: str, command: Command) -> Iterator[str]:
    context = click.Context(command, info_name=f"bussrv {words}")
    yield f"### bussrv {words}\n\n"
    yield f"`{' '.join([f'bussrv {words}', *command.collect_usage_pieces(context)])}`\n\n"
    yield f"{_text(' '.join((command.help or '').split()))}\n\n"
    by_heading = command.options_by_heading(context)
    is_connected = by_heading.pop(CONNECTION, None) is not None
    for heading, options in by_heading.items():
        own = [each for each in options if isinstance(each, click.Option) and each in command.params]
        found = [each.get_help_record(context) for each in own]
        records = [each for each in found if each is not None]
        if heading == OPTIONS and is_connected:
            records.append(("[Connection](#choose-the-server-and-the-user)", "the server and the user"))
        yield from _table(heading, records)
    yield "```sh\n" + "".join(f"{example}\n" for example in command.examples) + "```\n\n"


def _table(heading: str, records: list[tuple[str, str]]) -> Iterator[str]:
    """A table of options, if there are some."""
    if records:
        yield ("" if heading == OPTIONS else f"{heading}:\n\n") + "| option | meaning |\n|---|---|\n"
        for names, meaning in records:
            shown = names if names.startswith("[") else f"`{names}`"
            yield f"| {shown.replace('|', chr(92) + '|')} | {_text(meaning.strip())} |\n"
        yield "\n"


def _statuses() -> Iterator[str]:
    yield "| exit status | meaning |\n|---|---|\n"
    for status, meaning in MEANINGS.items():
        yield f"| {status} | {meaning} |\n"
    yield "\n| command | exit statuses that mean something of their own |\n|---|---|\n"
    for _, words, command in all_commands():
        if isinstance(command, Command):
            found = (f"{status}: {_text(meaning)}" for status, meaning in command.statuses.items())
            yield f"| `bussrv {words}` | {'; '.join(found)} |\n"


def _connection() -> Iterator[str]:
    found = BUSSRV.get_command(click.Context(BUSSRV), "sub")
    assert found is not None
    yield "| option | meaning |\n|---|---|\n"
    for each in found.params:
        record = each.get_help_record(click.Context(found))
        if isinstance(each, ConnectionOption) and record is not None:
            yield f"| `{record[0]}` | {_text(record[1])} |\n"


def _text(text: str) -> str:
    """A text in which options are code, and nothing means anything else to Markdown."""
    plain = text.split("`")
    for index in range(0, len(plain), 2):
        escaped = re.sub(r"([*_<>|\[\]])", r"\\\1", plain[index])
        plain[index] = _CODE.sub(r"`\1`", " ".join(escaped.split(" ")))
    return re.sub(r" {2,}", " ", "`".join(plain))


def main() -> None:
    """Write the page if it is not current."""
    page = PAGE.read_text()
    if with_commands(page) != page:
        PAGE.write_text(with_commands(page))


if __name__ == "__main__":
    main()
