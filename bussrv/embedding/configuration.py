"""The configuration of a server inside another program: the program's settings, and nothing else.

Neither the command line nor the environment counts, and a port that the settings do not name is not opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from twisted.plugins import bussrv_plugins

from bussrv.interfaces import IHostedService, IWireFormat
from bussrv.server.configuration.config import Config, build
from bussrv.server.configuration.option_table import table
from bussrv.server.configuration.sources import of_settings

OWN_FORMATS: tuple[IWireFormat, ...] = tuple(
    sorted((each for each in vars(bussrv_plugins).values() if IWireFormat.providedBy(each)), key=lambda each: each.name)
)
"""The wire formats of bussrv. Nothing is looked for on the disk."""

OWN_SERVICES: tuple[IHostedService, ...] = tuple(
    each for each in vars(bussrv_plugins).values() if IHostedService.providedBy(each)
)
"""The services that bussrv itself provides."""


def configured(
    settings: Mapping[str, Any], formats: Iterable[IWireFormat], services: Iterable[IHostedService]
) -> Config:
    """The configuration that settings stand for.

    :raises ConfigError: has a sentence for each setting that is wrong.
    """
    formats, services = list(formats), list(services)
    return build(of_settings(settings, table(formats, services)), formats, services, is_embedded=True)
