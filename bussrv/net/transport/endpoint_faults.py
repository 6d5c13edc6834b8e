"""Faults of endpoint descriptions, in sentences for operators.

Endpoints are plugins of Twisted. They open files and parse numbers, and let the exceptions of these pass. The texts of
those name functions and arguments of Python; here they become sentences about the description.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from twisted.internet.endpoints import serverFromString

from bussrv.errors import ConfigError
from bussrv.net.transport.endpoint_parts import take_apart

_DOMAINS = ("INET", "INET6", "UNIX")
_MOST_SAID = 200
_QUOTED = r"'([^']*)'"

_SENTENCES: tuple[tuple[type[Exception], str, Callable[[re.Match[str]], str]], ...] = (
    (TypeError, rf"unexpected keyword argument {_QUOTED}", lambda found: f"there is no parameter {found[1]!r}"),
    (
        TypeError,
        rf"unrecognized keyword arguments present \[{_QUOTED}",
        lambda found: f"there is no parameter {found[1]!r}",
    ),
    (TypeError, r"missing \d+ required positional arguments?: (.*)", lambda found: f"it lacks {found[1]}"),
    (TypeError, rf"multiple values for argument {_QUOTED}", lambda found: f"{found[1]!r} is set twice"),
    (TypeError, r"positional arguments? but", lambda _: "it has too many parts"),
    (
        ValueError,
        rf"invalid literal for int\(\) with base 8: {_QUOTED}",
        lambda found: f"{found[1]!r} is no octal number",
    ),
    (ValueError, rf"invalid literal for int\(\).*: {_QUOTED}", lambda found: f"{found[1]!r} is no number"),
    (ValueError, r"Exceeds the limit", lambda _: "a number in it is too large"),
    (OverflowError, r"port must be", lambda _: "ports are 0 to 65535"),
    (OverflowError, r"", lambda _: "a number in it is too large"),
    (AttributeError, rf"has no attribute {_QUOTED}", lambda found: f"{found[1]!r} is unknown"),
    (LookupError, r"", lambda _: "its parts have no such form"),
)


def explain(error: BaseException | None) -> str:
    """The fault that an exception of an endpoint stands for, in one line."""
    if isinstance(error, OSError) and error.strerror:
        path = error.filename2 or error.filename
        return f"{os.fsdecode(path)}: {error.strerror}" if path else error.strerror
    said = error.args if error is not None else ()
    if said and isinstance(said[0], list):
        # OpenSSL: a list of a library, a function and a reason each.
        reasons = ", ".join(str(each[-1]) for each in said[0] if each)
        return f"the key or the certificate cannot be used (OpenSSL: {reasons or 'no reason'})"
    text = " ".join(" ".join(map(str, said))[:_MOST_SAID].split())
    for kind, pattern, sentence in _SENTENCES:
        found = re.search(pattern, text)
        if isinstance(error, kind) and found is not None:
            text = sentence(found)
            break
    return "".join(each if each.isprintable() else "?" for each in text) or type(error).__name__


def passed_socket(description: str, reactor: Any) -> Any:
    """The endpoint of a socket that systemd passes to this process.

    :raises ConfigError: the description names no socket, or systemd passed no such one.
    :raises Exception: something else is wrong with it.
    """
    parts = take_apart(description)
    domain = parts.named.get("domain") or (parts.values[1] if len(parts.values) > 1 else "")
    named = [f"{key}={parts.named[key]}" for key in ("name", "index") if parts.named.get(key)]
    if len(named) != 1 or domain not in _DOMAINS or len(parts.values) > 2:
        raise ConfigError(
            "it has the form systemd:domain=INET:name=NAME, with INET, INET6 or UNIX, and with the name in "
            "FileDescriptorName= of the socket's unit"
        )
    try:
        return serverFromString(reactor, description)
    except LookupError:
        raise ConfigError(
            f"systemd has passed no socket with {named[0]} to this process: a unit bussrv.socket must have it, "
            "and start the server"
        ) from None
