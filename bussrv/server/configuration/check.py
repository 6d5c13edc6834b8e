"""Everything that a start checks, without opening a port and without writing to the journal."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from twisted.internet.defer import succeed

from bussrv.bus.bus import Bus
from bussrv.errors import ConfigError
from bussrv.formats.objects.dialing import make_dialer
from bussrv.interfaces import IHostedService, IWireFormat
from bussrv.journal.memory import MemoryJournal
from bussrv.net.listening import DatagramListener, StreamPort
from bussrv.net.transport.proxied import PREFIX
from bussrv.registry.changes.registry import Registry
from bussrv.server.configuration import config
from bussrv.server.configuration.config import ADMIN, CONFIG, Config
from bussrv.server.configuration.exposure import check_endpoints
from bussrv.server.configuration.faults import collecting, noting
from bussrv.server.configuration.rehearsal import Rehearsal
from bussrv.server.configuration.sources import GivenValue
from bussrv.server.log.text import Threshold
from bussrv.server.running import admin, cosigning, policy
from bussrv.server.running.identity import make_checkers
from bussrv.server.running.journal import NoJournal, journal_faults
from bussrv.server.running.links import DialedLinks, read_token
from bussrv.server.running.ports import listener_of, would_start
from bussrv.turns.clock import SystemClock

_IDENTITY = frozenset({"auth", "policy", "inbus-user", "insecure"})
"""Options without which nobody can say who may reach a port."""


def check(
    given: Mapping[str, GivenValue], formats: Iterable[IWireFormat], services: Iterable[IHostedService], reactor: Any
) -> Config:
    """The configuration that values of options stand for, with all that it names checked.

    :param reactor: need not run.
    :raises ConfigError: has a sentence for each fault, with the place of the value.
    """
    formats = list(formats)
    checked = config.build_as_far_as_possible(given, formats, services)
    faults = list(checked.faults)
    if CONFIG not in checked.faulty:
        faults += check_places(checked.config, formats, reactor, checked.faulty)
    if faults:
        raise ConfigError(*dict.fromkeys(faults))
    return checked.config


def check_values(
    given: Mapping[str, GivenValue], formats: Iterable[IWireFormat], services: Iterable[IHostedService], reactor: Any
) -> Config:
    """The configuration that values of options stand for, for a server that starts or reloads.

    Only if a value is wrong, files and endpoints are looked at as well. Otherwise the server does that itself, and
    possibly elsewhere: ``twistd --chroot``.

    :param reactor: returns the reactor, which is installed when it is asked for the first time.
    :raises ConfigError: has a sentence for each fault that :func:`check` finds.
    """
    formats, services = list(formats), list(services)
    try:
        return config.build(given, formats, services)
    except ConfigError:
        return check(given, formats, services, reactor())


def check_places(
    checked: Config, formats: Iterable[IWireFormat], reactor: Any, faulty: Collection[str] = ()
) -> list[str]:
    """The faults of the endpoints, files and directories that a configuration names.

    :param faulty: the options whose values are known to be wrong, and are not in the configuration.
    """
    faults: list[str] = []
    bus, formats = _bus(checked, reactor), list(formats)
    made = _made(checked, formats, bus, Rehearsal(reactor), faults)
    admin.check(checked, unstarted(bus, Rehearsal(reactor)), faults)
    make_checkers(checked, SystemClock().utc, reactor, faults)
    with collecting(faults):
        policy.read(checked, [each.name for each in formats])
    with collecting(faults):
        read_token(checked)
    for description in checked.link:
        with noting(checked.place("link"), faults):
            make_dialer(description, bus, reactor)
    if _IDENTITY.isdisjoint(faulty):
        faults += check_endpoints(checked, [*made, *([ADMIN] if checked.admin is not None else [])])
    with collecting(faults):
        cosigning.keys_in(checked, reactor)
    if checked.journal_config is not None:
        faults += journal_faults(checked.journal_config, checked.place)
    return faults


def _made(
    checked: Config, formats: Iterable[IWireFormat], bus: Bus, reactor: Rehearsal, faults: list[str]
) -> list[str]:
    """Make the ports of a server that is not started, for which endpoints and certificates are read, and try them.

    :returns: the names of those that can be made.
    """
    made: list[str] = []
    for each in formats:
        if each.name not in checked.endpoints:
            continue
        try:
            with collecting(faults):
                listener = listener_of(each, checked, bus, reactor)
                made.append(each.name)
                # A plugin may have a port of its own kind, which may do more than to listen. A socket that was passed
                # to this process is listening already, and can be taken once only.
                passed = checked.endpoints[each.name].removeprefix(PREFIX).startswith("systemd:")
                if isinstance(listener, (StreamPort, DatagramListener)) and not passed:
                    would_start(listener, checked.place(each.name), faults)
        except Exception as error:
            if checked.asks_for(each.name):
                faults.append(f"{checked.place(each.name)}: not served: {type(error).__name__}: {error}")
    return made


def unstarted(bus: Bus, reactor: Any) -> admin.AdminView:
    """A server that is not started, for the admin interface."""
    return admin.AdminView(
        bus=bus,
        journal=MemoryJournal(),
        reactor=reactor,
        boot="check",
        clock=SystemClock(),
        journal_place=NoJournal(),
        links=DialedLinks(bus, reactor),
        listeners={},
        threshold=Threshold(),
        witnesses=list,
        witness_answers=dict,
        is_draining=lambda: False,
        reload=lambda: succeed(None),
        drain=lambda: None,
    )


def _bus(checked: Config, reactor: Any) -> Bus:
    clock, server_id, settings = SystemClock(), checked.server_id or "check", checked.settings
    registry = Registry(MemoryJournal(), clock, secrets.token_hex, server_id=server_id, boot="check", settings=settings)
    return Bus(registry, settings, server_id, secrets.token_hex, clock, reactor)
