"""Kinds of values that only options of the server take; see :class:`bussrv.options.ValueKind`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bussrv.errors import BadValue
from bussrv.options import FILE, Network, Text, ValueKind
from bussrv.policy.logins.users import check_user
from bussrv.transparency.checkpoints import origin_fault
from bussrv.transparency.notes import ED25519, NoteError, parse_key
from bussrv.transparency.witnessing import parse_witness
from bussrv.values import shown

OFF = "off"
"""The value that switches off a wire format, the journal, or the services of the server."""

ALL = "all"
"""The value for all installed services."""

FILE_CHECKERS = ("users", "tokens")
"""The checkers that take a file."""

MAX_PORT = 0xFFFF

MOST_ORIGIN = 200
"""The most bytes of a name of a journal. With the place at which a tree begins it has at most 255, for ML-DSA."""

_MAX_DIGITS = 20
"""Text of more digits is not converted: Python raises an exception for very long numbers."""


class Endpoint(ValueKind["str | None"]):
    """The endpoint of a wire format. The setting is an endpoint description of Twisted; ``None``: off.

    :param default: the default of the option. A port alone gets the transport (``tcp`` or ``udp``) of this one.
    """

    takes = "an endpoint description, a port or `off`"

    def __init__(self, default: str) -> None:
        transport = default.partition(":")[0]
        self._transport = "tcp" if transport == OFF else transport
        self._example = "tcp:7892:interface=127.0.0.1" if default == OFF else default

    def check(self, value: object) -> str | None:
        """The endpoint description. A port alone means that port on the loopback interface."""
        if isinstance(value, int) and not isinstance(value, bool):
            return self._of_port(value)
        text = Text().check(value)
        if text == OFF:
            return None
        if text.isdecimal():
            return self._of_port(int(text) if len(text) <= _MAX_DIGITS else MAX_PORT + 1, text)
        if ":" not in text:
            raise BadValue(f"{shown(text)} is no endpoint, such as {self._example}")
        return text

    def _of_port(self, port: int, text: str = "") -> str:
        if not 0 <= port <= MAX_PORT:
            raise BadValue(f"{shown(text or port, str)} is no port: ports are 0 to {MAX_PORT}")
        return f"{self._transport}:{port}:interface=127.0.0.1"

    def plain(self, setting: Any) -> Any:
        """The endpoint description, or ``off``."""
        return OFF if setting is None else setting


class AdminUrl(ValueKind[str]):
    """The address of the admin interface of another server."""

    takes = "a URL"

    def check(self, value: object) -> str:
        """The URL: ``http`` or ``https``, a host, and perhaps a port and a path. It has no user and no query."""
        text = Text().check(value)
        example = "such as https://attic.example:7280"
        try:
            parts = urlsplit(text)
            is_whole = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port)
        except ValueError as error:
            raise BadValue(f"{shown(text)} is no URL, {example}: {error}") from error
        if not is_whole or parts.query or parts.fragment:
            raise BadValue(f"{shown(text)} is no URL of an admin interface, {example}")
        if "@" in parts.netloc:
            raise BadValue("the URL of an admin interface has no user: --admin-peer-token-file proves who asks")
        return text.rstrip("/")


class JournalDirectory(ValueKind["Path | None"]):
    """The directory of the journal. The setting is a path; ``None``: off."""

    takes = "a directory, or `off`"

    def check(self, value: object) -> Path | None:
        """The absolute path."""
        return None if value == OFF else FILE.check(value)

    def plain(self, setting: Any) -> Any:
        """The path, or ``off``."""
        return OFF if setting is None else str(setting)


class JournalOrigin(ValueKind[str]):
    """The name of a journal in its checkpoints, or of a witness.

    :param of: of what it is the name.
    """

    takes = f"text without blanks and `+`, at most {MOST_ORIGIN} bytes"

    def __init__(self, of: str = "a journal") -> None:
        self._of = of

    def check(self, value: object) -> str:
        """The text."""
        text = Text().check(value)
        if (wrong := origin_fault(text)) is not None:
            raise BadValue(f"{shown(text)} is no name of {self._of}: {wrong}")
        if len(text.encode()) > MOST_ORIGIN:
            raise BadValue(f"{shown(text)} has {len(text.encode())} bytes, the most is {MOST_ORIGIN}")
        return text


class WitnessUrl(ValueKind[str]):
    """A witness: its URL, and its verifier keys, with blanks between them."""

    takes = "a URL and a verifier key, with a blank between them"

    def check(self, value: object) -> str:
        """The text; :func:`bussrv.transparency.witnessing.parse_witness` reads it."""
        text = Text().check(value)
        Url().check(text.partition(" ")[0])
        try:
            parse_witness(text)
        except NoteError as error:
            raise BadValue(str(error)) from error
        return text


class LogKey(ValueKind[str]):
    """The verifier key of a log, such as the journal of another server."""

    takes = "a verifier key"

    def check(self, value: object) -> str:
        """The text; :func:`bussrv.transparency.notes.parse_key` reads it."""
        text = Text().check(value)
        try:
            key = parse_key(text)
        except NoteError as error:
            raise BadValue(str(error)) from error
        if key.type != ED25519:
            raise BadValue(f"{shown(key.name)} is the key of a witness: those of logs sign notes, and do not cosign")
        return text


class ServiceNames(ValueKind["tuple[str, ...] | None"]):
    """The services that the server itself provides. The setting has their names; ``None``: all that are installed.

    :param installed: the names of all installed services.
    """

    takes = "`all`, `off`, or names with commas between them"

    def __init__(self, installed: Iterable[str] = ()) -> None:
        self._installed = sorted(installed)

    def check(self, value: object) -> tuple[str, ...] | None:
        """The names, each once."""
        names = value.split(",") if isinstance(value, str) else value
        if names in ([ALL], [OFF]):
            return None if names == [ALL] else ()
        for name in names if isinstance(names, list) else [value]:
            if name not in self._installed:
                raise BadValue(f"{shown(name)} is none of {', '.join([ALL, OFF, *self._installed])}")
        return tuple(dict.fromkeys(names)) if isinstance(names, list) else ()

    def plain(self, setting: Any) -> Any:
        """A list of names, ``all`` or ``off``."""
        return ALL if setting is None else list(setting) or OFF


class CheckerDescription(ValueKind[str]):
    """A checker of who clients are: its name, and after a colon what it takes. It may hold secrets.

    The setting has absolute paths: a server may change its working directory.
    """

    takes = "a checker"

    def check(self, value: object) -> str:
        """The description. Nothing is looked up."""
        try:
            text = Text().check(value)
        except BadValue:
            # Without the value.
            raise BadValue("a checker is a text, such as users:/etc/bussrv/users") from None
        kind, colon, argument = text.partition(":")
        return f"{kind}:{FILE.check(argument)}" if kind in FILE_CHECKERS and colon else text


class UserOfNetwork(ValueKind["tuple[Network, str]"]):
    """A network, and the user that clients in it are."""

    takes = "a network and a user"

    def check(self, value: object) -> tuple[Network, str]:
        """The network, and the name of the user."""
        network, equals, user = Text().check(value).partition("=")
        if not equals:
            raise BadValue(f"{shown(value)} is not of the form NETWORK=USER")
        try:
            return ip_network(network), check_user(user)
        except ValueError as error:
            raise BadValue(f"{shown(value)}: {error}") from error

    def plain(self, setting: Any) -> Any:
        """Both as one text."""
        return f"{setting[0]}={setting[1]}"


class Url(ValueKind[str]):
    """A URL of HTTP. It may hold secrets, so that no fault quotes it."""

    takes = "a URL"

    def check(self, value: object) -> str:
        """The URL."""
        text = Text().check(value)
        try:
            parts = urlsplit(text)
            is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_url = False
        if not is_url or not text.isascii() or not text.isprintable() or " " in text:
            raise BadValue("it is no URL such as https://alerts.example/bussrv")
        if parts.username is not None:
            raise BadValue("a URL with a user before its host is not supported")
        return text


class CommandWords(ValueKind["tuple[str, ...]"]):
    """A command and its arguments. A text is split into words as a shell splits it, but no shell is involved."""

    takes = "a command with its arguments"

    def check(self, value: object) -> tuple[str, ...]:
        """The words."""
        if isinstance(value, list):
            words = [Text().check(each) for each in value]
        else:
            text = Text().check(value)
            try:
                words = shlex.split(text)
            except ValueError as error:
                raise BadValue(f"{shown(text)} cannot be split into words: {error}") from error
        if not words or not words[0]:
            raise BadValue("there is no command")
        if any("\0" in each for each in words):
            raise BadValue("a word of a command has no NUL in it")
        return tuple(words)

    def plain(self, setting: Any) -> Any:
        """A list of words."""
        return list(setting)
