"""Counters of an uplink, for Prometheus and for the last line of its log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from bussrv.addresses import parse_address
from bussrv.errors import ConfigError

PREFIX = "bussrv_uplink"

LOOPBACK = "127.0.0.1"


def metrics_address(text: str) -> tuple[str, int]:
    """The host and port of ``--metrics``; a port alone is one of this machine.

    :raises ConfigError: it is no address.
    """
    try:
        return parse_address(f"{LOOPBACK}:{text}" if text.isascii() and text.isdecimal() else text)
    except ValueError as error:
        raise ConfigError(f"--metrics {text}: {error}") from error


class Figures:
    """The figures of one uplink. Each engine makes those that it has.

    :ivar registry: the registry of all of them.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._counters: dict[str, Counter] = {}

    def counter(self, name: str, text: str) -> Counter:
        """A counter ``bussrv_uplink_NAME_total``."""
        made = self._counters[name] = Counter(name, text, namespace=PREFIX, registry=self.registry)
        return made

    def gauge(self, name: str, text: str) -> Gauge:
        """A gauge ``bussrv_uplink_NAME``."""
        return Gauge(name, text, namespace=PREFIX, registry=self.registry)

    def value(self, name: str) -> int:
        """The value of a counter."""
        return int(self.registry.get_sample_value(f"{PREFIX}_{name}_total") or 0)

    def summary(self) -> str:
        """The values of all counters, for people."""
        return ", ".join(f"{name.replace('_', ' ')} {self.value(name)}" for name in self._counters)

    @contextmanager
    def served(self, host: str, port: int) -> Iterator[int]:
        """Serve the figures to Prometheus over HTTP.

        :param port: 0: a free one.
        :returns: the port.
        :raises OSError: the port is taken.
        """
        server, thread = start_http_server(port, host, self.registry)
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
