"""Frozen values that every layer shares."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Literal
from unicodedata import category, normalize

from msgspec import Struct
from msgspec.structs import replace

from bussrv.errors import Refused
from bussrv.service_patterns import check_pattern, is_pattern

MAX_SERVICE_NAME = 255
"""The longest service name, in bytes of UTF-8."""

MAX_ROUTING_ID = 255
"""The longest routing id, in bytes of UTF-8."""

RESERVED_PREFIX = "bus/"
"""Service names that begin so are provided by the server itself."""

PRESENCE_PREFIX = "$bus/"
"""Names that begin so are topics on which the server itself says who and what is there. No service has such a name."""

OWN_PREFIXES = (RESERVED_PREFIX, PRESENCE_PREFIX)
"""Names that begin so belong to the server."""

OCTET_STREAM = "application/octet-stream"
"""The content type of bytes of which nothing else is known."""

UTF8_TEXT = "text/plain; charset=UTF-8"
"""The content type of text."""

# The categories Cc, Cs (halves of surrogate pairs, which no UTF-8 has), Zl and Zp.
_CONTROLS = "\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029"
# Characters that turn text around or are invisible: a name with one looks like another name. Joiners are allowed.
_UNSEEN = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u200b\u2060\ufeff"
_CONTROL = re.compile(f"[{_CONTROLS}]")
_UNFIT = re.compile(f"[{_CONTROLS}{_UNSEEN}]")

# Characters that look like a slash and that NFKC keeps: fraction slash, division slash, big solidus.
_SLASHES = str.maketrans("\u2044\u2215\u29f8", "///")
# Invisible characters that Unicode's NFKC_Casefold drops, other than format characters.
_IGNORED = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]")

ReceiveMode = Literal["none", "all", "no_echo", "events_only"]
Vocabulary = Literal["objects", "business", "rules"]


class ModeInterest(Struct, frozen=True, tag_field="kind", tag="modes"):
    """The interest of a member that subscribed with a receive mode and content types (seeds 000 and 002).

    ``types`` holds lower-case patterns without parameters; ``None`` means all types, an empty tuple none.
    """

    receive: ReceiveMode = "all"
    types: tuple[str, ...] | None = None


class RuleInterest(Struct, frozen=True, tag_field="kind", tag="rules"):
    """The interest of a member that subscribed with an ordered list of rules (the deployed dialect).

    A nested tuple is a nested array of the rule list: a match inside it decides at once.
    """

    rules: tuple[str | tuple[str, ...], ...]


Interest = ModeInterest | RuleInterest


class Publication(Struct, frozen=True):
    """A payload with a content type, published on a service. It crosses from one wire format to another.

    :ivar service: the service it was published on.
    :ivar content_type: the content type as the publisher wrote it.
    :ivar payload: the bytes.
    :ivar app_type: the Inbus application type.
    :ivar own: what else the wire format of its publisher has to say to receivers of the same wire format.
    :ivar is_retained: whether the server retains it on a topic of its own; see :mod:`bussrv.bus.services.own_topics`.
    """

    service: str
    content_type: str
    payload: bytes
    app_type: int = 1
    own: object = None
    is_retained: bool = False


def check_publication(publication: Publication) -> None:
    """Check what the wire format of a publisher, which may be a plugin, made: every other format has to encode it.

    :raises TypeError: the payload is no ``bytes``, the content type no text, or the application type no number.
    :raises UnicodeEncodeError: the content type is no UTF-8.
    """
    fields = (publication.content_type, publication.payload, publication.app_type)
    if tuple(map(type, fields)) != (str, bytes, int):
        raise TypeError("a publication has a text, bytes and a number: its content type, payload and application type")
    publication.content_type.encode()


class Traffic(Struct):
    """Counts of one session: objects (messages) and bytes, in and out, counted per chunk."""

    objects_in: int = 0
    objects_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


# The rules in effect, as the journal tells them: ``server.started`` and ``config.reloaded`` carry them, and so does the
# snapshot of each segment. So a decision of the past can be made again. There is nothing secret among them.


class PolicyRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule of a policy, in the words of its file. A condition that is ``None`` holds for every session.

    :ivar line: the number of its first line.
    :ivar users: names of users; with ``groups`` one condition.
    :ivar groups: names of groups.
    :ivar networks: networks, or ``unix``.
    :ivar formats: names of wire formats.
    :ivar clauses: the action, the pattern and the line of each pattern, in the order of the file.
    """

    line: int
    users: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    networks: tuple[str, ...] | None = None
    formats: tuple[str, ...] | None = None
    clauses: tuple[tuple[str, str, int], ...] = ()


class PolicyText(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rules of a policy file.

    :ivar name: the name of the file, without its directory.
    :ivar digest: the SHA-256 of the file, in hexadecimal digits; ``None`` in a journal with pseudonyms, where a
        guess of the names could be held against it.
    :ivar groups: the users in each group.
    :ivar rules: the rules, in the order of the file.
    """

    name: str
    digest: str | None = None
    groups: dict[str, tuple[str, ...]] = {}
    rules: tuple[PolicyRule, ...] = ()


class InEffect(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rules in effect.

    :ivar asks: whether clients must prove who they are, because there is something to check that with.
    :ivar policy: ``None``: there is no policy.
    :ivar limits: the limits, by the names of their options.
    """

    asks: bool = False
    policy: PolicyText | None = None
    limits: dict[str, int] = {}


def with_names(rules: InEffect, actor: Callable[[str], str], peer: Callable[[str], str]) -> InEffect:
    """The rules with other names of users, and other addresses of single hosts; larger networks stay.

    :param actor: says what stands for a user.
    :param peer: says what stands for an address.
    """
    policy = rules.policy
    if policy is None:
        return rules

    def users(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(each if each in ("*", "anonymous") else actor(each) for each in names)

    def networks(names: tuple[str, ...]) -> tuple[str, ...]:
        hosts = ((each, _host(each)) for each in names)
        return tuple(each if host is None else peer(host) for each, host in hosts)

    named = tuple(
        replace(
            each,
            users=None if each.users is None else users(each.users),
            networks=None if each.networks is None else networks(each.networks),
        )
        for each in policy.rules
    )
    groups = {name: users(members) for name, members in policy.groups.items()}
    return replace(rules, policy=replace(policy, digest=None, groups=groups, rules=named))


def _host(network: str) -> str | None:
    """The address of a network of one host, or its pseudonym; ``None`` for every other network, and for ``unix``."""
    try:
        found = ip_network(network)
    except ValueError:
        return network if network.startswith("~") else None
    return str(found.network_address) if found.num_addresses == 1 else None


MAX_QUOTED = 60
MAX_SHOWN = 200


def quoted(value: Any) -> str:
    """The beginning of a client's text, short enough for a message."""
    text = repr(value[: MAX_QUOTED + 1] if isinstance(value, (str, bytes, list)) else value)
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"


def shown(value: Any, show: Callable[[Any], str] = repr) -> str:
    """The value of an option as an error shows it: in one line, not too long."""
    try:
        text = show(value)
    except ValueError:
        # Of a number with very many digits.
        return "a very large number"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def data_size(size: int) -> str:
    """A number of bytes for people: ``599 bytes``, ``1.6 GB``."""
    for least, unit in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= least:
            return f"{size / least:.3g} {unit}"
    return f"{size} bytes"


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the most similar one, if one is similar; otherwise nothing."""
    from difflib import get_close_matches

    similar = get_close_matches(name[:MAX_SHOWN], list(known), n=1, cutoff=0.7)
    return f"; did you mean {similar[0]!r}?" if similar else ""


def excerpt(name: Any) -> str:
    """The journaled form of an invalid name: it need not be text, and may be long."""
    text = name if isinstance(name, str) else repr(name)
    return text.encode("utf-8", "replace").decode()[:MAX_SERVICE_NAME]


def check_routing_id(value: Any, name: str) -> str:
    """Return ``value`` if it can be a new routing id.

    :param name: the name of the attribute, for the message.
    :raises Refused: ``bad-subscription``.
    """
    if not isinstance(value, str) or not 0 < len(value.encode("utf-8", "replace")) <= MAX_ROUTING_ID:
        raise Refused("bad-subscription", f"{name} is a string of 1 to {MAX_ROUTING_ID} bytes")
    wrong = _misfit(value, _UNFIT)
    if wrong is not None:
        raise Refused("bad-subscription", f"{name} {wrong}")
    return value


def check_service_name(name: Any) -> str:
    """Return ``name`` if it can be the name of a new service.

    :raises Refused: ``bad-service-name``.
    """
    checked = _check_service_name(name, _UNFIT)
    if is_pattern(checked):
        raise Refused("bad-service-name", f"{quoted(checked)} has a wildcard as a level: it is a pattern, and no name")
    return checked


def check_wanted_name(name: Any) -> str:
    """Return ``name`` if it can be the name of a new service, or is a pattern over names.

    :raises Refused: ``bad-service-name``.
    """
    checked = _check_service_name(name, _UNFIT)
    check_pattern(checked)
    return checked


def check_known_name(name: Any) -> str:
    """Return ``name`` if a service may have that name already: journals of older versions hold names that are not new.

    :raises Refused: ``bad-service-name``.
    """
    return _check_service_name(name, _CONTROL)


def _check_service_name(name: Any, unfit: re.Pattern[str]) -> str:
    if not isinstance(name, str):
        raise Refused("bad-service-name", f"a service name is a string, not {type(name).__name__}")
    if not name:
        raise Refused("bad-service-name", "a service name is not empty")
    size = len(name.encode("utf-8", "surrogatepass"))
    if size > MAX_SERVICE_NAME:
        raise Refused("bad-service-name", f"a service name has at most {MAX_SERVICE_NAME} bytes, this one has {size}")
    wrong = _misfit(name, unfit)
    if wrong is not None:
        raise Refused("bad-service-name", f"a service name {wrong}")
    return name


def _misfit(text: str, unfit: re.Pattern[str]) -> str | None:
    """The fault of the characters of a name, for a message."""
    found = unfit.search(text)
    if found is not None:
        return f"holds no {found[0]!a} (character {found.start()})"
    if unfit is _UNFIT and text != text.strip():
        return "neither begins nor ends with a blank"
    return None


def is_reserved(name: str) -> bool:
    """Whether a name is reserved for every server: it reads as if it began with :data:`RESERVED_PREFIX`."""
    if name.isascii():
        return name[: len(RESERVED_PREFIX)].lower() == RESERVED_PREFIX
    return read_as(name).startswith(RESERVED_PREFIX)


def read_as(name: str) -> str:
    """A name without its letter case, invisible characters and special forms: equal for names that look alike."""
    if name.isascii():
        return name.lower()
    folded = normalize("NFKC", normalize("NFKC", name).casefold()).translate(_SLASHES)
    return "".join(each for each in _IGNORED.sub("", folded) if category(each) != "Cf")


def absolute(path: str) -> Path:
    """The absolute path of a file. A relative one starts from the working directory. Nothing is looked up there.

    :raises ValueError: the working directory is gone.
    """
    try:
        return Path(path).absolute()
    except FileNotFoundError as error:
        raise ValueError(f"{shown(path)} starts from the working directory, which is gone") from error
