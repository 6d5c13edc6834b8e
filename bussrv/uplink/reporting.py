"""What an uplink reports: its log, and its figures, which are served while it runs and summed up at its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bussrv.addresses import format_address
from bussrv.errors import ConfigError, os_errors_as
from bussrv.uplink.figures import Figures
from bussrv.uplink.lines import Lines


@contextmanager
def reported(metrics: tuple[str, int] | None, *, as_json: bool) -> Iterator[tuple[Figures, Lines]]:
    """The figures and the log of an uplink that runs.

    :param metrics: host and port for Prometheus; ``None``: the figures are not served.
    :param as_json: the form of the log.
    :raises ConfigError: the port is taken.
    """
    figures, log = Figures(), Lines(as_json)
    with ExitStack() as stack:
        if metrics is not None:
            with os_errors_as(ConfigError, f"--metrics {format_address(*metrics)}"):
                bound = stack.enter_context(figures.served(*metrics))
            address = format_address(metrics[0], bound)
            log.info("uplink: metrics on {address}", event="uplink.metrics", address=address)
        try:
            yield figures, log
        finally:
            log.info("uplink: stopped: {figures}", event="uplink.stopped", figures=figures.summary())
