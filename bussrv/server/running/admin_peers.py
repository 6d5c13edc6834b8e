"""How the servers of ``--admin-peer`` are asked: with a token, which never crosses the network in the clear."""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import urlsplit

from bussrv.addresses import is_local_host
from bussrv.admin.servers.asking import AskedServer
from bussrv.errors import ConfigError, named, os_errors_as
from bussrv.net.tls.link_tokens import read_token
from bussrv.server.configuration.config import Config


def asked_servers(config: Config) -> list[AskedServer]:
    """How the servers of ``--admin-peer`` are asked.

    :raises ConfigError: a file cannot be used, or a token would cross the network in the clear.
    """
    if not config.admin_peer:
        return []
    with named(config.place("admin-peer-ca")):
        context = _peer_context(config.admin_peer_ca)
    with named(config.place("admin-peer-token-file")):
        token = None if config.admin_peer_token_file is None else read_token(config.admin_peer_token_file)
    for url in config.admin_peer if token is not None else ():
        parts = urlsplit(url)
        if parts.scheme != "https" and not is_local_host(parts.hostname or ""):
            raise ConfigError(
                f"{config.place('admin-peer')}: {url}: the token would cross the network in the clear: use https"
            )
    return [AskedServer(url, token, context) for url in config.admin_peer]


def _peer_context(authorities: Path | None) -> ssl.SSLContext:
    """:raises ConfigError: the file cannot be used."""
    with os_errors_as(ConfigError, f"{authorities}: cannot be used"):
        return ssl.create_default_context(cafile=authorities)
