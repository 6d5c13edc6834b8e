"""Texts for people that are made from the table of options: ``--help`` and the sample configuration file."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from bussrv.options import Option

_SAMPLE_WIDTH = 100

_SAMPLE_HEAD = (
    "Options of bussrv. Each line that begins with # and no blank is an option with its default, or with an example if "
    "no value stands for the default. Remove the # to set the option. Then start: twistd -n bussrv --config bussrv.toml"
)


def help_text(option: Option) -> str:
    """The help of an option, without Markdown, and its default."""
    return f"{_told(option)} [default: {option.shown_default}]"


def usage_text(table: Iterable[Option], width: int) -> str:
    """Every option, in groups; the help of each stands below its name."""
    parts = []
    for group, options in groupby(table, key=lambda each: each.group):
        parts.append(f"{group.title}:\n")
        names = ((each, f"--{each.name}{'' if each.kind.is_flag else '='}") for each in options)
        parts += [usage_entry(name, help_text(each), width) for each, name in names]
    return "\n".join(parts)


def usage_entry(name: str, text: str, width: int) -> str:
    """An option of the command line and its help."""
    return f"  {name}\n{filled(text, width, ' ' * 6)}\n"


def sample_file(table: Iterable[Option]) -> str:
    """A configuration file, in TOML, that sets nothing until its lines are uncommented."""
    parts = [filled(_SAMPLE_HEAD, _SAMPLE_WIDTH, "# ")]
    for group, options in groupby((each for each in table if each.in_file), key=lambda each: each.group):
        parts.append(f"# ---- {group.title} ----")
        parts += map(_sample_entry, options)
    return "\n\n".join(parts) + "\n"


def _sample_entry(option: Option) -> str:
    told = f"{_told(option)} Default: {option.unset}." if option.unset else _told(option)
    value = option.kind.plain(option.default) if option.example is None else option.example
    return f"{filled(told, _SAMPLE_WIDTH, '# ')}\n#{option.name} = {toml_value(value)}"


def _told(option: Option) -> str:
    return option.help.replace("`", "")


def filled(text: str, width: int, indent: str = "") -> str:
    """Lines of at most ``width`` characters. No name of an option or a code is broken."""
    return textwrap.fill(
        " ".join(text.split()), width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def toml_value(value: Any) -> str:
    """A flag, a number, a text or a list of texts. JSON writes all of these like TOML, except one control."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
