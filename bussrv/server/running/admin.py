"""The admin interface of a server: its port, its token file, and what it is shown of the server.

Whoever can read the token file may write through the admin interface of a server without identity. The server makes it
at the start if it is not there: a random token, mode 0600.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from bussrv.addresses import is_local_host
from bussrv.admin.http.login import Login
from bussrv.admin.incidents.known import KnownIncidents
from bussrv.admin.interfaces import Reloaded
from bussrv.admin.servers.asking import AskedServer
from bussrv.admin.servers.peers import Peer
from bussrv.admin.site import AdminPort
from bussrv.bus.interfaces import Effects, IBus, Use
from bussrv.errors import ConfigError, named, os_errors_as
from bussrv.events import Event
from bussrv.interfaces import IListener
from bussrv.journal.interfaces import IJournal
from bussrv.journal.record import Stamped
from bussrv.net.session.protocol import StreamProtocol
from bussrv.net.tls.link_tokens import read_token
from bussrv.policy.logins.tokens import new_token
from bussrv.server.configuration.config import ADMIN, Config
from bussrv.server.configuration.exposure import check_opened
from bussrv.server.configuration.faults import collecting, noting
from bussrv.server.configuration.rehearsal import why_not_made
from bussrv.server.log.text import Threshold
from bussrv.server.running.journal import JournalPlace, NoJournal
from bussrv.server.running.links import DialedLinks
from bussrv.server.running.ports import CannotListen, start, would_start
from bussrv.turns.clock import Clock
from bussrv.witness.submitting import WitnessCondition


def asked_servers(config: Config) -> list[AskedServer]:
    """How the servers of ``--admin-peer`` are asked.

    :raises ConfigError: a file cannot be used, or a token would cross the network in the clear.
    """
    if not config.admin_peer:
        return []
    with named(config.place("admin-peer-ca")):
        context = _peer_context(config.admin_peer_ca)
    with named(config.place("admin-peer-token-file")):
        token = None if config.admin_peer_token_file is None else read_token(config.admin_peer_token_file)
    for url in config.admin_peer if token is not None else ():
        parts = urlsplit(url)
        if parts.scheme != "https" and not is_local_host(parts.hostname or ""):
            raise ConfigError(
                f"{config.place('admin-peer')}: {url}: the token would cross the network in the clear: use https"
            )
    return [AskedServer(url, token, context) for url in config.admin_peer]


def _peer_context(authorities: Path | None) -> ssl.SSLContext:
    """:raises ConfigError: the file cannot be used."""
    with os_errors_as(ConfigError, f"{authorities}: cannot be used"):
        return ssl.create_default_context(cafile=authorities)


log = Logger()

SUFFIX = ".admin-token"
"""The admin token file, unless an option names another one, has the name of the journal with this ending."""


@dataclass(kw_only=True, eq=False)
class AdminView:
    """A server; see :class:`bussrv.admin.interfaces.AdministeredServer`.

    :ivar listeners: the ports of wire formats that are open, by name.
    :ivar links: those that the server dials.
    """

    bus: IBus
    journal: IJournal
    reactor: Any
    boot: str
    clock: Clock
    journal_place: JournalPlace | NoJournal
    links: DialedLinks
    listeners: Mapping[str, IListener]
    threshold: Threshold
    witnesses: Callable[[], Sequence[WitnessCondition]]
    witness_answers: Callable[[], Mapping[int, int]]
    is_draining: Callable[[], bool]
    reload: Callable[[], Deferred[Reloaded | None]]
    drain: Callable[[], None]

    def __post_init__(self) -> None:
        self.started = self.bus.utc()
        self.incidents = KnownIncidents()
        self.place = self.journal_place if isinstance(self.journal_place, JournalPlace) else None
        self.journal_condition = self.journal_place.condition
        self.dialed = self.links.dialed

    def formats(self) -> Mapping[str, str]:
        """The address of each wire format that is on, by its name."""
        return {name: listener.address for name, listener in self.listeners.items()}

    def clients(self) -> int:
        """How many sessions a drain would end."""
        connections = (each for kept in self.bus.streams.connections for each in kept)
        return sum(isinstance(each, StreamProtocol) and not (each.is_link or each.has_ended) for each in connections)

    def write(self, event: Event) -> Deferred[Any]:
        """Journal an event. :returns: fires when it is durable; fails with ``JournalUnavailable``."""
        return self.journal.append([Stamped(self.clock.utc(), self.clock.mono(), event)])

    def prepare_log_level(self, level: str, part: str | None) -> Callable[[], None]:
        """Check another least level of the log. :returns: puts it into effect.

        :raises BadValue: there is no such level, or no such part.
        """
        self.threshold.levels.changed(level, part)

        def use() -> None:
            self.threshold.levels = self.threshold.levels.changed(level, part)

        return use

    def log_level(self) -> str:
        """The levels of the log."""
        return str(self.threshold.levels)


def token_file(config: Config) -> Path | None:
    """The admin token file; ``None``: there is none.

    A server that knows who its clients are needs none. Without a journal there is no place for one, unless an option
    names it.
    """
    if config.admin is None or config.auth or config.policy is not None:
        return None
    if config.admin_token_file is not None:
        return config.admin_token_file
    journal = config.journal
    return None if journal is None else journal.with_name(journal.name + SUFFIX)


def read_token_file(path: Path) -> str:
    """The token in the file. Secret.

    :raises ConfigError: it cannot be read, belongs to another user, or others than its owner may use it.
    """
    with os_errors_as(ConfigError, f"{path}: cannot be read"):
        owner = path.stat().st_uid
    if owner not in (os.geteuid(), 0):
        raise ConfigError(f"{path}: belongs to another user: remove it, and the server makes a new one")
    return read_token(path)


def _read_or_make(path: Path) -> str:
    """The token in the file, which is made if it is not there. Secret.

    :raises ConfigError: it cannot be made or read, or others than its owner may use it.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return read_token_file(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be made: {error.strerror}") from error
    token = new_token()
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{token}\n")
    return token


class AdminInterface:
    """The admin interface, if it is on.

    :ivar port: ``None``: it is off, or its port is busy.
    """

    def __init__(self, config: Config, view: AdminView, faults: list[str]) -> None:
        self.port: AdminPort | None = None
        self._token: str | None = None
        if config.admin is not None:
            with noting(config.place(ADMIN), faults):
                self.port = AdminPort(view, Login(view.bus, lambda: self._token), config.admin)

    @property
    def dashboard(self) -> str | None:
        """The URL of the page, once the port is open. ``None``: it is off, or no browser reaches it here."""
        kind, _, address = ("", "", "") if self.port is None else self.port.address.partition(" ")
        scheme = {"tcp": "http", "tcp6": "http", "ssl": "https"}.get(kind)
        return None if scheme is None else f"{scheme}://{address}/"

    @property
    def peers(self) -> Iterable[Peer]:
        """The servers of ``--admin-peer``, if the interface is on."""
        return () if self.port is None else self.port.site.shared.peers

    def prepare(self, config: Config) -> Use:
        """Read the admin token file, which is made if it is not there. Nothing changes yet.

        :returns: puts the token and the names of the server into effect; cannot fail.
        :raises ConfigError: the file cannot be used.
        """
        path = token_file(config)
        with named(config.place("admin-token-file")):
            token = None if path is None else _read_or_make(path)
        return partial(self._use, config, path, token, asked_servers(config))

    def _use(
        self, config: Config, path: Path | None, token: str | None, asked: Sequence[AskedServer]
    ) -> Effects | None:
        before, self._token = self._token, token
        if self.port is not None:
            self.port.site.use(hosts=config.admin_host, audit_summary=config.audit_summary, peers=asked)
        is_other = token is not None and before is not None and token != before
        return Effects((f"admin token in {path}: another one",)) if is_other else None

    def open(self, config: Config, faults: list[str]) -> None:
        """Listen. If the port is the default one and busy, the interface is off.

        :param faults: gets a sentence if a port that was asked for cannot be opened, or others could reach it.
        """
        if self.port is None:
            return
        place = config.place(ADMIN)
        try:
            start(self.port, place)
        except CannotListen as error:
            self.port = None
            if ADMIN in config.places:
                faults += error.sentences
            else:
                log.warn(
                    "WARNING: the admin interface is off: {why} ({place})",
                    event="admin.off",
                    why=error.why,
                    place=place,
                )
        except ConfigError as error:
            self.port = None
            faults += error.sentences
        else:
            with collecting(faults):
                check_opened(config, {ADMIN: self.port})

    def stop(self) -> Deferred[Any]:
        """Close the port and every connection."""
        port, self.port = self.port, None
        return succeed(None) if port is None else port.stopService()


def check(config: Config, view: AdminView, faults: list[str]) -> None:
    """Check the endpoint, the admin token file and the files for admin peers, without opening or making a thing.

    :param view: has a :class:`bussrv.server.configuration.rehearsal.Rehearsal` in the place of the reactor.
    :param faults: gets a sentence for each that cannot be used.
    """
    port = AdminInterface(config, view, faults).port
    if port is not None:
        would_start(port, config.place(ADMIN), faults)
    with collecting(faults):
        asked_servers(config)
    path = token_file(config)
    if path is None:
        return
    with noting(config.place("admin-token-file"), faults):
        if os.path.lexists(path):
            read_token_file(path)
        elif config.journal is None or not config.journal.is_relative_to(path.parent):
            # Otherwise the directory is made for the journal, and checked there.
            _check_made(path)


def _check_made(path: Path) -> None:
    why = why_not_made(path)
    if why is not None:
        raise ConfigError(f"{path}: cannot be made: {os.strerror(why)}")
