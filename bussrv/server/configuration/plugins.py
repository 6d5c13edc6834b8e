"""The plugins that are installed: wire formats, and services of the server itself.

A plugin that cannot be used is left out, and one sentence says why. The others are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import twisted.plugin
from twisted.cred.strcred import ICheckerFactory
from twisted.plugin import getPlugins
from twisted.python.failure import Failure

from bussrv.errors import ConfigError, Refused
from bussrv.interfaces import IHostedService, IWireFormat
from bussrv.server.log.text import one_line
from bussrv.values import check_service_name

_OPTION = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Installed(NamedTuple):
    """The installed plugins, by name.

    :ivar left_out: a sentence for each plugin that cannot be used.
    """

    formats: list[IWireFormat]
    services: list[IHostedService]
    left_out: list[str]


def installed(taken: Container[str] = ()) -> Installed:
    """Find the plugins.

    :param taken: names of options that no wire format may have.
    """
    left_out: list[str] = []
    formats = _usable(IWireFormat, lambda each: _check_format(each, taken), left_out)
    services = _usable(IHostedService, _check_service, left_out)
    return Installed(formats, services, list(dict.fromkeys(map(one_line, left_out))))


def checker_factories() -> dict[str, Any]:
    """The checkers for :mod:`twisted.cred` that are installed, by the name that their descriptions begin with."""
    with _failures_in([]):
        found = list(getPlugins(ICheckerFactory))
    # The first one of a name counts, as in Twisted itself.
    names = [(_attribute(each, "authType"), each) for each in reversed(found)]
    return {name: each for name, each in names if isinstance(name, str)}


def _usable(interface: Any, check: Callable[[Any], None], left_out: list[str]) -> list[Any]:
    usable: dict[str, Any] = {}
    with _failures_in(left_out):
        found = list(getPlugins(interface))
    for plugin in found:
        why = _why_not(plugin, interface, check, usable)
        if why is None:
            usable[plugin.name] = plugin
        else:
            left_out.append(f"the plugin {_named(plugin)} is left out: {why}")
    return [usable[name] for name in sorted(usable)]


def _why_not(plugin: Any, interface: Any, check: Callable[[Any], None], others: Container[str]) -> str | None:
    """Why a plugin cannot be used; ``None`` if it can."""
    try:
        missing = [name for name in interface.names() if not hasattr(plugin, name)]
        if missing:
            return f"it has no {', '.join(sorted(missing))}"
        check(plugin)
    except (ConfigError, Refused) as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"there is another one of the name {plugin.name!r}" if plugin.name in others else None


def _check_format(plugin: IWireFormat, taken: Container[str]) -> None:
    for attribute in ("name", "summary", "default_endpoint"):
        if not isinstance(getattr(plugin, attribute), str):
            raise ConfigError(f"its {attribute} is not a text")
    if not _OPTION.fullmatch(plugin.name) or plugin.name in taken:
        raise ConfigError(f"its name {plugin.name!r} cannot be an option")


def _check_service(plugin: IHostedService) -> None:
    for attribute in ("name", "summary", "content_type"):
        if not isinstance(getattr(plugin, attribute), str):
            raise ConfigError(f"its {attribute} is not a text")
    check_service_name(plugin.name)


def _attribute(plugin: Any, name: str) -> Any:
    """An attribute of a plugin; ``None``: it fails to say it."""
    try:
        return getattr(plugin, name)
    except Exception:
        return None


def _named(plugin: Any) -> str:
    name = _attribute(plugin, "name")
    where = f"{type(plugin).__module__}.{type(plugin).__qualname__}"
    return f"{name!r} ({where})" if isinstance(name, str) else where


class _Failures:
    """Takes the place of the log of :mod:`twisted.plugin`, which has nothing but tracebacks for plugins that fail."""

    def __init__(self, sentences: list[str]) -> None:
        self._sentences = sentences

    def err(self, *_: Any) -> None:
        failure = Failure()
        # The frames of the import system have no names of files.
        places = [(file, line) for _, file, line, *_ in failure.frames if not file.startswith("<")]
        where = f" ({places[-1][0]}, line {places[-1][1]})" if places else ""
        self._sentences.append(f"a plugin is left out: {type(failure.value).__name__}: {failure.value}{where}")

    def msg(self, *_: Any, **__: Any) -> None:
        """A cache of plugins that cannot be written only costs time."""


@contextmanager
def _failures_in(sentences: list[str]) -> Iterator[None]:
    module: Any = twisted.plugin
    log = module.log
    module.log = _Failures(sentences)
    try:
        yield
    finally:
        module.log = log
