"""Configurations for tests, from values that a command line could give."""

from collections.abc import Mapping
from typing import Any

from bussrv.server.configuration import config
from bussrv.server.configuration.config import Config
from bussrv.server.configuration.plugins import installed
from bussrv.server.configuration.sources import of_command_line


def configured(options: Mapping[str, Any]) -> Config:
    found = installed()
    return config.build(of_command_line(options), found.formats, found.services)
