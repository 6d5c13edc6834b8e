"""Everything that a start checks, without opening a port and without writing to the journal."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from bussrv.bus.bus import Bus
from bussrv.clock import SystemClock
from bussrv.errors import ConfigError
from bussrv.formats.dialing import make_dialer
from bussrv.interfaces import IHostedService, IWireFormat
from bussrv.journal.memory import MemoryJournal
from bussrv.registry.registry import Registry
from bussrv.server import admin, config, policy
from bussrv.server.config import ADMIN, Config
from bussrv.server.exposure import check_endpoints
from bussrv.server.faults import noting
from bussrv.server.identity import make_checkers
from bussrv.server.journal import NoJournal, journal_faults
from bussrv.server.links import DialedLinks, read_token
from bussrv.server.logtext import Threshold
from bussrv.server.ports import listener_of
from bussrv.server.sources import Given


def check(
    given: Mapping[str, Given], formats: Iterable[IWireFormat], services: Iterable[IHostedService], reactor: Any
) -> Config:
    """The configuration that values of options stand for, with all that it names checked.

    :param reactor: need not run.
    :raises ConfigError: has a sentence for each fault, with the place of the value. If values are wrong, files and
        endpoints are not looked at.
    """
    formats = list(formats)
    checked = config.build(given, formats, services)
    faults = check_places(checked, formats, reactor)
    if faults:
        raise ConfigError(*faults)
    return checked


def check_places(checked: Config, formats: Iterable[IWireFormat], reactor: Any) -> list[str]:
    """The faults of the endpoints, files and directories that a configuration names."""
    formats = list(formats)
    faults = _port_and_link_faults(checked, formats, reactor)
    try:
        policy.read(checked, [each.name for each in formats])
    except ConfigError as error:
        faults += error.sentences
    make_checkers(checked, SystemClock().utc, reactor, faults)
    if checked.journal is not None:
        faults += journal_faults(checked.journal, checked.place)
    return faults


def _port_and_link_faults(checked: Config, formats: Iterable[IWireFormat], reactor: Any) -> list[str]:
    """Make the ports and links of a server that is not started: endpoints and certificates are read for that."""
    faults: list[str] = []
    made: list[str] = []
    bus = _bus(checked, reactor)
    for each in formats:
        if each.name not in checked.endpoints:
            continue
        try:
            listener_of(each, checked, bus, reactor)
            made.append(each.name)
        except ConfigError as error:
            faults += error.sentences
        except Exception as error:
            faults.append(f"--{each.name}: not served: {type(error).__name__}: {error}")
    for description in checked.links:
        with noting(checked.place("link"), faults):
            make_dialer(description, bus, reactor)
    try:
        read_token(checked)
    except ConfigError as error:
        faults += error.sentences
    admin.check(checked, unstarted(bus, reactor), faults)
    return [*faults, *check_endpoints(checked, [*made, *([ADMIN] if checked.admin is not None else [])])]


def unstarted(bus: Bus, reactor: Any) -> admin.View:
    """A server that is not started, for the admin interface."""
    return admin.View(
        bus,
        MemoryJournal(),
        reactor,
        "check",
        SystemClock(),
        place=NoJournal(),
        links=DialedLinks(bus, reactor),
        listeners={},
        threshold=Threshold(),
        is_draining=lambda: False,
        reload=lambda: None,
        drain=lambda: None,
    )


def _bus(checked: Config, reactor: Any) -> Bus:
    clock, server_id, settings = SystemClock(), checked.server_id or "check", checked.settings
    registry = Registry(MemoryJournal(), clock, secrets.token_hex, server_id=server_id, boot="check", settings=settings)
    return Bus(registry, settings, server_id, secrets.token_hex, clock, reactor)
