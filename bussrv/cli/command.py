"""The classes of commands: help with examples and exit statuses, and subcommands that are imported when needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from bussrv.cli.failure import Failure

PATHS = frozenset({"FILE", "DIR", "JOURNAL"})
"""The metavariables of parameters that take paths. A journal may be a URL as well."""

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


OPTIONS = "Options"
CONNECTION = "Connection"
"""Headings of options in the help."""


class HeadedOption(click.Option):
    """An option that the help shows under a heading of its own.

    :ivar heading: the heading.
    """

    heading = OPTIONS


class ConnectionOption(HeadedOption):
    """An option that names the server or the user."""

    heading = CONNECTION


class Command(click.Command):
    """A command.

    :ivar examples: command lines that ``--help`` shows. Each of them works.
    :ivar statuses: the meanings of its exit statuses.
    """

    def __init__(
        self, *arguments: Any, examples: Sequence[str] = (), statuses: Mapping[int, str] | None = None, **named: Any
    ) -> None:
        named.setdefault("context_settings", SETTINGS)
        super().__init__(*arguments, **named)
        self.examples = tuple(examples)
        self.statuses = dict(statuses or {})

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command.

        :raises Failure: a path starts from a working directory that is gone.
        """
        from bussrv.values import absolute

        try:
            for path in self._paths(ctx):
                absolute(path)
        except ValueError as error:
            raise Failure(f"{error}: change to another directory") from error
        return super().invoke(ctx)

    def _paths(self, ctx: click.Context) -> Iterator[str]:
        """The paths that the command line names, and those that are defaults."""
        for each in self.params:
            value = ctx.params.get(each.name or "")
            if value is not None and (each.metavar or "").removesuffix("...") in PATHS:
                texts = map(str, value if isinstance(value, (list, tuple)) else [value])
                yield from (text for text in texts if text != "-" and "://" not in text)

    def options_by_heading(self, ctx: click.Context) -> dict[str, list[click.Parameter]]:
        """The options, those without a heading of their own first, and those that name the server or the user last."""
        found: dict[str, list[click.Parameter]] = {OPTIONS: []}
        for each in self.get_params(ctx):
            found.setdefault(each.heading if isinstance(each, HeadedOption) else OPTIONS, []).append(each)
        if CONNECTION in found:
            found[CONNECTION] = found.pop(CONNECTION)
        return found

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings."""
        for heading, options in self.options_by_heading(ctx).items():
            records = [each.get_help_record(ctx) for each in options]
            shown = [each for each in records if each is not None]
            if shown:
                with formatter.section(heading):
                    formatter.write_dl(shown)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write exit statuses and examples."""
        if self.statuses:
            with formatter.section("Exit status"):
                formatter.write_dl([(str(status), meaning) for status, meaning in self.statuses.items()])
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{example}\n")


def command(**declared: Any) -> Callable[[Callable[..., int]], Command]:
    """Make a command of a function. It has the name of the function, and the docstring is its help.

    :param declared: arguments of :class:`Command`.
    """
    return click.command(cls=Command, **declared)


@click.pass_context
def _overview(context: click.Context) -> int:
    """Print the help if there is no subcommand."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
    return 0


class CommandGroup(click.Group):
    """Commands of one subject. Without a subcommand, it prints its help."""

    command_class = Command

    def __init__(self, *arguments: Any, **named: Any) -> None:
        how = {"context_settings": SETTINGS, "callback": _overview, "invoke_without_command": True}
        super().__init__(*arguments, **{**how, **named})

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a subcommand.

        :raises click.UsageError: there is none; it has the most similar name.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchOption:
            raise
        except click.UsageError as error:
            from bussrv.values import suggestion

            said = f"there is no command {args[0]!r}{suggestion(args[0], self.list_commands(ctx))}"
            raise click.UsageError(said, ctx) from error


@dataclass(frozen=True)
class Row:
    """A row of a table of commands.

    :ivar module: the module that has the command, by its name.
    :ivar summary: a few words for the list.
    """

    module: str
    summary: str


class LazyGroup(CommandGroup):
    """A group whose commands are imported when they are used. Listing them imports none.

    :param sections: tables of commands by name, each under a heading.
    """

    def __init__(self, *arguments: Any, sections: Mapping[str, Mapping[str, Row]], **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.sections = sections
        self._entries = {name: entry for rows in sections.values() for name, entry in rows.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self._entries:
            return None
        found: click.Command = getattr(import_module(self._entries[cmd_name].module), cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands under their headings."""
        wide = max(map(len, self._entries))
        for heading, rows in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:{wide}}", entry.summary) for name, entry in rows.items()])
