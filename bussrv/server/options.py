"""The options of ``twistd bussrv``: one for each installed wire format, and what all of them share."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from twisted.plugin import getPlugins
from twisted.python import usage

from bussrv.errors import ConfigError
from bussrv.interfaces import IHostedService, IWireFormat
from bussrv.journal.batch import Rotation
from bussrv.journal.upkeep import Policy
from bussrv.server import config
from bussrv.server.config import Config
from bussrv.settings import Settings

_DEFAULTS = Settings()
_ROTATION = Rotation()
_POLICY = Policy()

_PARAMETERS: tuple[tuple[str, str], ...] = (
    ("journal-sync", "when a change counts as durable: always, interval (within a second) or off [default: always]"),
    ("journal-segment-bytes", f"bytes after which a journal segment ends [default: {_ROTATION.bytes}]"),
    ("journal-segment-age", f"seconds after which a journal segment ends [default: {_ROTATION.age:g}]"),
    ("journal-seal-interval", f"seconds between two seals of a growing segment [default: {_POLICY.seal_interval:g}]"),
    ("journal-key", "the key that seals are signed with, made with: bussrv journal keygen [default: unsigned]"),
    ("journal-retain-age", "seconds after which closed segments are removed [default: never]"),
    ("journal-retain-bytes", "bytes of journal beyond which its oldest segments are removed [default: never]"),
    ("journal-pseudonyms", "a file of keys: users and addresses are journaled as pseudonyms [default: as they are]"),
    ("server-id", "the routing id of this server [default: the one in the journal, or a new one]"),
    ("services", "which services of its own the server provides: all, off, or names and commas [default: all]"),
    ("config", "a TOML file of options; the command line goes first"),
    (
        "announce",
        f"to whom joining and leaving members are announced: members, servers or off [default: {_DEFAULTS.announce}]",
    ),
    ("max-sessions", f"the most sessions at a time [default: {_DEFAULTS.max_sessions}]"),
    (
        "max-sessions-per-address",
        f"the most sessions from one address [default: {_DEFAULTS.max_sessions_per_address}]",
    ),
    ("max-connects", f"the most new sessions from one address a second [default: {_DEFAULTS.max_connects}]"),
    ("max-services", f"the most services of one session [default: {_DEFAULTS.max_services}]"),
    ("max-subscriptions", f"the most services one session may subscribe to [default: {_DEFAULTS.max_subscriptions}]"),
    ("max-metadata", f"the most bytes of an object's metadata [default: {_DEFAULTS.max_metadata}]"),
    ("max-payload", f"the most bytes of an object's payload [default: {_DEFAULTS.max_payload}]"),
    ("max-nesting", f"how deep metadata may nest [default: {_DEFAULTS.max_nesting}]"),
    ("max-packet", f"the most bytes of an SPP packet [default: {_DEFAULTS.max_packet}]"),
    (
        "max-outbound",
        f"the most bytes that wait for one client before it is disconnected [default: {_DEFAULTS.max_outbound}]",
    ),
    ("max-last-values", f"the most bytes of last values kept for new watchers [default: {_DEFAULTS.max_last_values}]"),
    ("max-last-value", f"the most bytes of the last value kept of one service [default: {_DEFAULTS.max_last_value}]"),
    (
        "max-requests",
        f"the most requests whose replies still find their way back [default: {_DEFAULTS.max_requests}]",
    ),
    ("request-timeout", f"seconds a request may wait for its reply [default: {_DEFAULTS.request_timeout:g}]"),
    ("max-patterns", f"the most content types or rules of a subscription [default: {_DEFAULTS.max_patterns}]"),
    (
        "max-routing-ids",
        f"the most further routing ids that a session may ask for [default: {_DEFAULTS.max_routing_ids}]",
    ),
    (
        "max-linked",
        f"the most sessions, routing ids and services a linked server may tell of [default: {_DEFAULTS.max_linked}]",
    ),
    (
        "max-seen",
        f"objects of linked servers remembered so that none is delivered twice [default: {_DEFAULTS.max_seen}]",
    ),
    ("max-link-delay", f"the most seconds between two attempts to link [default: {_DEFAULTS.max_link_delay:g}]"),
    ("subscribe-timeout", f"seconds a client may take to subscribe [default: {_DEFAULTS.subscribe_timeout:g}]"),
    (
        "close-timeout",
        f"seconds a closing connection may take to read what is queued [default: {_DEFAULTS.close_timeout:g}]",
    ),
    ("inbus-lease", f"seconds an Inbus client may be silent, 0: for ever [default: {_DEFAULTS.inbus_lease:g}]"),
    (
        "inbus-max-rate",
        f"the most datagrams a second to one Inbus subscriber address [default: {_DEFAULTS.inbus_max_rate}]",
    ),
    ("spp-users", "a file of those who may watch over SPP, made with: bussrv spp-user [default: everybody may]"),
    ("slow", f"for slow clients: spp=coalesce or spp=disconnect [default: spp={_DEFAULTS.slow_spp}]"),
)


class StartError(SystemExit, Exception):
    """Ends the program with one sentence on standard error, exit status 1 and no traceback.

    Also an :class:`Exception`, so that ``twistd`` cleans up after itself (its pid file, its waiting parent process)
    on its way out.
    """

    def __init__(self, message: str) -> None:
        super().__init__(1)
        self.message = message
        print(f"bussrv: {message}", file=sys.__stderr__)

    def __str__(self) -> str:
        return self.message


def wire_formats() -> list[IWireFormat]:
    """The wire formats that are installed, by name."""
    return sorted(getPlugins(IWireFormat), key=lambda wire_format: str(wire_format.name))


def hosted_services() -> list[IHostedService]:
    """The services of the server itself that are installed, by name."""
    return sorted(getPlugins(IHostedService), key=lambda service: str(service.name))


def Options() -> BusOptions:  # noqa: N802
    """The options of ``twistd bussrv`` with the wire formats that are installed now."""
    formats = wire_formats()
    parameters = [
        *(_format_parameter(each) for each in formats),
        ["journal", None, None, f"the journal directory, or off [default: ./{config.DEFAULT_JOURNAL}]"],
        *([name, None, None, description] for name, description in _PARAMETERS),
    ]
    # Twisted takes parameters from classes only, and which there are is known only now.
    options_class: type[BusOptions] = type("Options", (BusOptions,), {"optParameters": parameters})
    return options_class(formats, hosted_services())


def _format_parameter(wire_format: IWireFormat) -> list[Any]:
    description = f"where to serve {wire_format.summary} [default: {wire_format.default_endpoint}]"
    return [wire_format.name, None, None, description]


class BusOptions(usage.Options):
    """What the command line of ``twistd bussrv`` says; made by :func:`Options`.

    :ivar config: what it stands for, once it is parsed.
    """

    synopsis = "[bussrv options]"
    longdesc = (
        "A message bus server. Each wire format listens where its option says: an endpoint description such as "
        "tcp:7890:interface=127.0.0.1 or udp:7222, a bare port (loopback only), or off."
    )
    optParameters: list[list[Any]] = []  # noqa: RUF012
    optFlags = (
        ("strict", None, "refuse payloads without a type"),
        ("journal-compress", None, "compress closed journal segments"),
        ("journal-salvage", None, "go on with a damaged journal, in a new chain behind the damage"),
    )

    config: Config

    def __init__(self, formats: Iterable[IWireFormat], services: Iterable[IHostedService]) -> None:
        super().__init__()
        self.formats = list(formats)
        self.services = list(services)
        self._lists: dict[str, list[str]] = {"link": [], "inbus-allow": [], "link-allow": []}

    def opt_link(self, endpoint: str) -> None:
        """Keep a link to the server at this endpoint, such as tcp:hall.example:7890; may be repeated."""
        self._lists["link"].append(endpoint)

    def opt_link_allow(self, network: str) -> None:
        """A network, such as 192.168.7.0/24, that servers may link from beside this machine; may be repeated."""
        self._lists["link-allow"].append(network)

    def opt_inbus_allow(self, network: str) -> None:
        """A network, such as 192.168.7.0/24, that Inbus subscriber addresses may lie in; may be repeated."""
        self._lists["inbus-allow"].append(network)

    def parseArgs(self, *arguments: str) -> None:
        """There are no arguments.

        :raises usage.UsageError: names the first one.
        """
        if arguments:
            raise usage.UsageError(f"there is no argument {arguments[0]!r}")

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Parse and check everything; what is wrong ends the program with one sentence.

        :raises StartError: names what is wrong.
        """
        try:
            super().parseOptions(options)
            self.config = config.build(self._merged(), self.formats, self.services)
        except (usage.UsageError, ConfigError) as error:
            raise StartError(f"{error} (see twistd bussrv --help)") from error

    def _merged(self) -> dict[str, Any]:
        """The options that are set: by the configuration file, and over it by the command line."""
        given: dict[str, Any] = {name: value for name, value in self.items() if value not in (None, 0)}
        given.update({name: values for name, values in self._lists.items() if values})
        given.update({flag: True for flag, *_ in self.optFlags if flag in given})
        path = given.pop("config", None)
        if path is None:
            return given
        merged = config.read_file(path)
        known = {each[0] for each in self.optParameters} | {each[0] for each in self.optFlags} | self._lists.keys()
        unknown = sorted(merged.keys() - (known - {"config"}))
        if unknown:
            raise ConfigError(f"--config: {path}: there is no option {unknown[0]!r}")
        return {**merged, **given}
