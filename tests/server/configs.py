"""Configurations for tests, from values that a command line could give."""

from collections.abc import Mapping
from typing import Any

from bussrv.server.configuration import config
from bussrv.server.configuration.config import Config
from bussrv.server.configuration.plugins import installed
from bussrv.server.configuration.sources import of_command_line

# To look for plugins takes as long as a dozen starts.
FORMATS, SERVICES, _ = installed()


def configured(options: Mapping[str, Any]) -> Config:
    return config.build(of_command_line(options), FORMATS, SERVICES)
