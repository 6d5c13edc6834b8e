"""Subjects of NATS: what each stands for, and services as subjects. Pure.

::

    bus.NET.pub.SERVICE     publications on a service; each level of its name is a token
    bus.NET.obj.SERVER      objects of that server that are no publications, for everybody who wants them
    bus.NET.to.SERVER       objects for sessions of that server, requests for its providers, replies to its askers
    bus.NET.reg.SERVER      the directory of that server; in a stream, too
    bus.NET.beat.SERVER     its heartbeat
    bus.NET.seal.SERVER     the newest seals of its journal; in a stream

A token is a level or a routing id in UTF-8. Each byte that is no ASCII letter, digit, ``-`` or ``_`` is written as
``%`` and two hexadecimal digits; an empty level as ``%``. So names that NATS takes for wildcards, or does not take, are
subjects, too. Source: docs.nats.io, Subject-Based Messaging.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from bussrv.errors import RemoteProtocolError
from bussrv.service_patterns import ONE_LEVEL, REST, SEPARATOR, filter_of

_EMPTY = "%"
_OTHER = re.compile(rb"[^A-Za-z0-9_-]")
_TOKEN = re.compile(r"(?:[A-Za-z0-9_-]|%[0-9A-F]{2})+\Z")
_NET = re.compile(r"[A-Za-z0-9_-]{1,32}\Z")


class Subjects:
    """The subjects of one net.

    :param net: its name: 1 to 32 ASCII letters, digits, ``-`` and ``_``.
    :raises ValueError: it has another one.
    """

    def __init__(self, net: str) -> None:
        if not _NET.match(net):
            raise ValueError(f"the name of a net has 1 to 32 letters, digits, - and _, unlike {net!r}")
        self.net = net
        self.root = f"bus.{net}"
        self._publications = f"{self.root}.pub."

    def publication(self, service: str) -> str:
        """Publications on a service."""
        return self._publications + ".".join(map(token, service.split(SEPARATOR)))

    def service(self, subject: str) -> str | None:
        """The service on which something on this subject was published; ``None``: it is no publication.

        :raises RemoteProtocolError: ``bad-frame``: no service has this subject.
        """
        if not subject.startswith(self._publications):
            return None
        return SEPARATOR.join(map(level, subject[len(self._publications) :].split(".")))

    def kind(self, subject: str) -> str:
        """What a subject stands for, such as ``obj``; see above."""
        return subject[len(self.root) + 1 :].partition(".")[0]

    def parts(self, subject: str) -> tuple[str, str]:
        """The kind of a subject, and the rest of it after that.

        Of a subject of a server, the rest is its routing id.

        :raises RemoteProtocolError: ``bad-frame``: no server has this subject.
        """
        kind, _, rest = subject[len(self.root) + 1 :].partition(".")
        return kind, rest if kind == "pub" else level(rest)

    def of(self, kind: str, server: str = "*") -> str:
        """A subject of a server, or of all of them.

        :param kind: such as ``obj``; see above.
        """
        return f"{self.root}.{kind}.{server if server == '*' else token(server)}"

    def all_publications(self) -> str:
        """Publications on all services."""
        return f"{self._publications}>"

    def wanted(self, names: Iterable[str]) -> Iterator[str]:
        """The subjects of the publications that match names and patterns; there may be several for one.

        They may be wider than the patterns: see :func:`bussrv.service_patterns.is_apart`.
        """
        for name in names:
            levels = filter_of(name).split(SEPARATOR)
            has_rest = levels[-1] == REST
            tokens = ["*" if each == ONE_LEVEL else token(each) for each in (levels[:-1] if has_rest else levels)]
            own = ".".join(tokens)
            if not has_rest:
                yield self._publications + own
            elif not tokens:
                yield self.all_publications()
            else:
                # The parent, too: NATS has no pattern for both.
                yield self._publications + own
                yield f"{self._publications}{own}.>"


def token(text: str) -> str:
    """A level of a name, or a routing id, as a token of a subject."""
    return _OTHER.sub(_escaped, text.encode()).decode() or _EMPTY


def _escaped(found: re.Match[bytes]) -> bytes:
    return b"%%%02X" % found[0][0]


def level(text: str) -> str:
    """The text that a token stands for.

    :raises RemoteProtocolError: ``bad-frame``: it is none.
    """
    if text == _EMPTY:
        return ""
    try:
        if _TOKEN.match(text):
            return unquote(text, errors="strict")
    except UnicodeDecodeError:
        pass
    raise RemoteProtocolError("bad-frame", "a level of a subject stands for no name")


def covers(pattern: str, subject: str) -> bool:
    """Whether a subscription to ``pattern`` gets messages on ``subject``."""
    wanted, tokens = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        return len(tokens) >= len(wanted) and all(map(_fits, wanted[:-1], tokens))
    return len(tokens) == len(wanted) and all(map(_fits, wanted, tokens))


def _fits(wanted: str, given: str) -> bool:
    return wanted in ("*", given)
