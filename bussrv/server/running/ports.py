"""The ports of a server. A fault of one is a sentence that begins with the place of its option."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.logger import Logger

from bussrv.bus.interfaces import IBus
from bussrv.errors import ConfigError, named
from bussrv.interfaces import IListener, IWireFormat
from bussrv.memory.resources import Expiring
from bussrv.server.configuration.config import Config
from bussrv.server.configuration.exposure import check_opened
from bussrv.server.configuration.faults import collecting
from bussrv.server.configuration.rehearsal import WouldListen
from bussrv.server.log.text import say_aside

SOON = 30
"""A certificate that expires within so many days causes a warning."""

log = Logger()


def make_listeners(
    formats: Iterable[IWireFormat], config: Config, bus: IBus, reactor: Any, faults: list[str]
) -> dict[str, IListener]:
    """Make the listener of each wire format, by name. Files are read, but no port is opened yet.

    A bad plugin, which fails for another reason than its endpoint, is left out, here and by :func:`open_ports`. If the
    operator asked for it, that is a fault.

    :param faults: gets a sentence for each option that is wrong.
    """
    made: dict[str, IListener] = {}
    for each in formats:
        with _noting(each.name, config, faults):
            made[each.name] = listener_of(each, config, bus, reactor)
    return made


def open_ports(
    listeners: Mapping[str, IListener], config: Config, opened: dict[str, IListener], faults: list[str]
) -> None:
    """Listen for every wire format.

    :param opened: gets the listeners, by name; also those that were opened before an error.
    :param faults: gets a sentence for each option that is wrong.
    """
    before = len(faults)
    for name, listener in listeners.items():
        with _noting(name, config, faults):
            start(listener, config.place(name))
            _check_address(listener)
            opened[name] = listener
    if len(faults) > before:
        return
    if not (opened or config.is_embedded):
        faults.append("no wire format can be served")
    with collecting(faults):
        check_opened(config, opened)


@contextmanager
def _noting(name: str, config: Config, faults: list[str]) -> Iterator[None]:
    try:
        with collecting(faults):
            yield
    except Exception as error:
        sentence = f"{config.place(name)}: not served: {type(error).__name__}: {error}"
        if config.asks_for(name):
            faults.append(sentence)
        else:
            log.error("{sentence}", event="format.not-served", sentence=sentence, protocol=name)
            say_aside(sentence)


def _check_address(listener: IListener) -> None:
    """:raises TypeError: a port of a plugin does not say where it listens. It is closed again."""
    address = getattr(listener, "address", None)
    if not isinstance(address, str):
        maybeDeferred(listener.stopService)
        raise TypeError(f"the address of its port is no text, but {type(address).__name__}")


def listener_of(wire_format: IWireFormat, config: Config, bus: IBus, reactor: Any) -> IListener:
    """The listener of a wire format, not started yet.

    :raises ConfigError: has a sentence, with the place of the option that is wrong.
    :raises Exception: a plugin failed.
    """
    with named(config.place(wire_format.name)):
        return wire_format.listen(bus, config.endpoints[wire_format.name], reactor)


class CannotListen(ConfigError):
    """The system does not open a port.

    :ivar why: the reason, without the place of the option.
    """

    def __init__(self, place: str, error: CannotListenError) -> None:
        self.why = _cannot_listen(error)
        super().__init__(f"{place}: {self.why}")


def start(listener: IListener, place: str) -> None:
    """Open a port.

    :param place: the place of its option.
    :raises CannotListen: the system refuses.
    :raises ConfigError: there is no such port.
    """
    try:
        listener.startService()
    except WouldListen:
        raise
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error
    except CannotListenError as error:
        raise CannotListen(place, error) from error


def would_start(listener: IListener, place: str, faults: list[str]) -> None:
    """Find out whether a port could be opened. It was made with a :class:`Rehearsal`, so it is not opened.

    :param faults: gets a sentence if it could not.
    """
    with suppress(WouldListen), collecting(faults):
        start(listener, place)


def _cannot_listen(error: CannotListenError) -> str:
    what = getattr(error.socketError, "strerror", None) or error.socketError
    if isinstance(error.port, int):
        where = f"{error.interface or 'any interface'}, port {error.port}"
    else:
        where = os.fsdecode(error.port)
    return f"cannot listen on {where}: {what}"


def warn_of_expiry(certificates: Mapping[str, Expiring]) -> None:
    """Log a warning for each certificate that expires soon.

    :param certificates: those of each end that speaks TLS, by its name.
    """
    for name, each in certificates.items():
        days = each.days_left()
        if days is not None and days < SOON:
            log.warn(
                "WARNING: {name}: a certificate in {file} expires in {days} days",
                event="certificate.expires",
                name=name,
                days=days,
                file=each.file,
            )
