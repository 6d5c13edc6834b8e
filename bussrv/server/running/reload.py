"""Reload: the configuration is read again while the server runs. All changes take effect together, or none does.

1. The file, the environment and the command line are read, and all values are checked.
2. All files that the running server has read are read again and checked, and so are new links. If an option changed
   that only a restart can change, everything is checked that a start would check.
3. If there is any fault, nothing changes.
4. Otherwise the settings get their new values in one step. Then every part that depends on them, or on a file, takes
   its prepared values. This step cannot fail.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.logger import Logger

from bussrv import events as ev
from bussrv.admin.interfaces import Reloaded
from bussrv.bus.interfaces import IBus, Use, Withdrawn
from bussrv.errors import ConfigError
from bussrv.interfaces import IWireFormat
from bussrv.journal.record import format_time
from bussrv.server.configuration.check import check_places
from bussrv.server.configuration.config import Config
from bussrv.server.configuration.exposure import check_endpoints
from bussrv.server.configuration.faults import prepare_all
from bussrv.server.configuration.option_table import BUILT_IN
from bussrv.server.log.text import Threshold, one_line
from bussrv.server.running.links import DialedLinks
from bussrv.server.running.policy import in_effect
from bussrv.server.running.ports import warn_of_expiry
from bussrv.server.running.process import Fitting, SharedProcess, warn_of_fewer

log = Logger()

MOST_SAID = 2_000
"""The most characters of faults that are journaled."""

Prepare = Callable[[Config], Use]
"""Checks the configuration of one part of the server. Returns a function that puts it into effect, and cannot fail."""

_RELOADABLE = frozenset(each.name for each in BUILT_IN if each.reloadable)


class PreparedReload(Struct, frozen=True):
    """A configuration that was read again and checked.

    :ivar fitting: its settings, within the descriptors of this process.
    :ivar changed: the names of the options that it changes.
    :ivar restart: the names of the options that only a restart changes.
    :ivar uses: functions that put it into effect.
    """

    config: Config
    fitting: Fitting
    changed: tuple[str, ...]
    restart: tuple[str, ...]
    uses: tuple[Use, ...]


class Reload:
    """Reads the configuration again, each time that it is called.

    :param config: the configuration that is in effect.
    :param read: reads it again; raises :class:`ConfigError`.
    :param formats: the wire formats that are on.
    :param threshold: the threshold of the log.
    :param parts: further parts of the server that depend on reloadable options, in the order of their changes.
    :param process: the process of the server.
    """

    def __init__(
        self,
        config: Config,
        read: Callable[[], Config],
        *,
        formats: Iterable[IWireFormat],
        bus: IBus,
        links: DialedLinks,
        threshold: Threshold,
        parts: Iterable[Prepare],
        reactor: Any,
        process: SharedProcess,
    ) -> None:
        self._process = process
        self._values = dict(config.values)
        self._endpoints = config.endpoints
        self._admin = config.admin
        self._read = read
        self._formats = list(formats)
        self._bus = bus
        self._links = links
        self._threshold = threshold
        self._parts = tuple(parts)
        self._reactor = reactor
        self._last: dict[str, str] = {}
        bus.report("reload", lambda: self._last)

    def reload(self) -> Deferred[Reloaded | None]:
        """Read the configuration again. The log, the journal and ``bus/statistics`` tell the outcome, too.

        :returns: the outcome; fires when sessions have lost what they may not have any more.
        """
        try:
            change = self._prepare()
        except ConfigError as error:
            return succeed(self._failed(error.sentences))
        except Exception as error:
            # Endpoints and wire formats are plugins, which may raise any exception.
            log.failure("the configuration cannot be read again", event="config.reload-failed")
            return succeed(self._failed([f"{type(error).__name__}: {error}"]))
        return self._use(change)

    def _prepare(self) -> PreparedReload:
        config = self._read()
        names = [name for name, value in config.values.items() if value != self._values.get(name)]
        restart = tuple(each for each in names if each not in _RELOADABLE)
        faults: list[str] = []
        leaving = self._links.leaving(config.link)
        prepares = [each.prepare for each in self._bus.reloadables if each not in leaving]
        prepares.append(lambda: self._links.prepare(config.link, config.place("link")))
        prepares += [partial(each, config) for each in self._parts]
        uses = prepare_all(prepares, faults)
        # A reload opens and closes no port, also if the file names other ports now.
        open_now = dataclasses.replace(config, endpoints=self._endpoints, admin=self._admin)
        faults += check_endpoints(open_now, open_now.ports)
        if restart:
            faults += check_places(config, self._formats, self._reactor)
        if faults:
            raise ConfigError(*dict.fromkeys(faults))
        changed = tuple(each for each in names if each in _RELOADABLE)
        fits = self._process.fitting(config.settings)
        if "max-sessions" in changed:
            warn_of_fewer(config.settings, fits)
        return PreparedReload(config, fits, changed, restart, tuple(uses))

    def _use(self, change: PreparedReload) -> Deferred[Reloaded | None]:
        self._bus.settings.reload(change.fitting.settings)
        self._bus.streams.most_connections = change.fitting.most_connections
        self._threshold.levels = change.config.log_level
        effects = [found for found in (use() for use in change.uses) if found is not None]
        words = tuple(chain.from_iterable(each.words for each in effects))
        self._values.update({name: change.config.values[name] for name in change.changed})
        self._note("ok")
        self._bus.registry.note(ev.ConfigReloaded(changed=change.changed, in_effect=in_effect(self._bus)))
        log.info(
            "reloaded the configuration; changed: {names}",
            event="config.reloaded",
            names="; ".join([", ".join(change.changed) or "no option", *map(one_line, words)]),
        )
        if change.restart:
            log.warn("restart to change: {names}", event="config.restart-needed", names=", ".join(change.restart))
        warn_of_expiry(self._bus.streams.certificates)
        for sentence in change.config.without_effect:
            log.warn("{sentence}", event="config.without-effect", sentence=one_line(sentence))
        outcome = Reloaded(change.changed, change.restart, effects=words)
        withdrawn = DeferredList([each.withdrawn for each in effects if each.withdrawn is not None])
        return withdrawn.addCallback(_with_withdrawn, outcome)

    def _failed(self, sentences: Iterable[str]) -> Reloaded:
        lines = [one_line(each) for each in sentences]
        self._note("failed")
        self._bus.registry.note(ev.ConfigReloadFailed(message="; ".join(lines)[:MOST_SAID]))
        for each in lines:
            log.error("not reloaded: {sentence}", event="config.fault", sentence=each)
        log.error("the configuration cannot be used, so nothing has changed", event="config.reload-failed")
        return Reloaded(faults=tuple(lines))

    def _note(self, outcome: str) -> None:
        self._last = {"time": format_time(self._bus.utc()), "outcome": outcome}


def _with_withdrawn(parts: Iterable[tuple[bool, Withdrawn]], outcome: Reloaded) -> Reloaded:
    """The outcome with what clients have lost, in words, which the log tells as well."""
    found = [each for _, each in parts]
    words = [
        _number(sum(each.sessions for each in found), "session", "ended"),
        _number(sum(each.services for each in found), "service", "withdrawn"),
        _number(sum(each.subscriptions for each in found), "subscription", "withdrawn"),
    ]
    said = [each for each in words if each]
    if said:
        log.info("because of the reload: {said}", event="config.withdrawn", said=", ".join(said))
    return replace(outcome, effects=(*outcome.effects, *said))


def _number(number: int, what: str, became: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'} {became}" if number else ""
