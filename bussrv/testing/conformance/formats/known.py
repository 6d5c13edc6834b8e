"""Adapters by the name of their format: those of bussrv, and those that packages declare.

A package declares its adapter as an entry point of the group ``bussrv.conformance``, with the name of the format.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from bussrv.errors import ConfigError
from bussrv.testing.conformance.adapter import Adapter

GROUP = "bussrv.conformance"

_FORMATS = "bussrv.testing.conformance.formats"
OWN = {
    "objects": f"{_FORMATS}.objects:ObjectsAdapter",
    "business": f"{_FORMATS}.objects:BusinessAdapter",
    "websocket": f"{_FORMATS}.objects:WebSocketAdapter",
    "spp": f"{_FORMATS}.spp:SppAdapter",
    "inbus": f"{_FORMATS}.inbus:InbusAdapter",
    "mqtt": f"{_FORMATS}.mqtt:MqttAdapter",
}


def adapter_of(name: str) -> Adapter:
    """The adapter of a format.

    :param name: of the format; or ``MODULE:CLASS``, the place of an adapter.
    :raises ConfigError: there is none, or it cannot be used.
    """
    place = name if ":" in name else OWN.get(name) or _declared(name)
    module, _, attribute = place.partition(":")
    try:
        made = getattr(import_module(module), attribute)()
    except Exception as error:
        raise ConfigError(f"{place} is no adapter: {type(error).__name__}: {error}") from error
    if not isinstance(made, Adapter):
        raise ConfigError(f"{place} is no adapter: it is not derived from {Adapter.__module__}.Adapter")
    return made


def _declared(name: str) -> str:
    found = {each.name: each.value for each in entry_points(group=GROUP)}
    if name not in found:
        there_are = ", ".join(sorted({*OWN, *found}))
        raise ConfigError(
            f"there is no adapter for {name!r}, only for {there_are}; name the place of its class, as MODULE:CLASS, or "
            f"install a package that declares it as an entry point {name} of the group {GROUP}"
        )
    return found[name]
