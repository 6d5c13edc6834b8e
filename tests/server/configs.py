"""Configurations for tests, from values that a command line could give."""

from collections.abc import Mapping
from typing import Any

from bussrv.server import config
from bussrv.server.config import Config
from bussrv.server.plugins import installed
from bussrv.server.sources import of_command_line


def configured(options: Mapping[str, Any]) -> Config:
    found = installed()
    return config.build(of_command_line(options), found.formats, found.services)
