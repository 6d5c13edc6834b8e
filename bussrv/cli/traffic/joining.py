"""A client of a bus for a command, and what it says of its connection."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from bussrv.cli.connection import ConnectionOptions
from bussrv.terminal import one_line

if TYPE_CHECKING:
    from bussrv.client.events import State

SCHEMES = {"objects": "bus", "business": "business", "inbus": "inbus", "spp": "spp"}
"""The scheme of each wire format, without TLS."""

_UNHEARD = logging.NullHandler()

Joined = TypeVar("Joined")


def joined(
    connect: Callable[..., Joined],
    connection: ConnectionOptions,
    wire_format: str,
    *,
    reconnect: bool = False,
    on_state: Callable[[State], None] | None = None,
) -> Joined:
    """A client, to be entered.

    :param connect: that of :mod:`bussrv.client.aio` or :mod:`bussrv.client.blocking`.
    :param wire_format: one of :data:`SCHEMES`.
    :param reconnect: wait for the server, also whenever it went. Inbus has no connections, so it always does.
    :param on_state: is called with each state; by default :class:`ConnectionNotes` says them.
    """
    from bussrv.client.settings import Backoff

    # The command itself says everything. Without this, warnings would go to the standard error, too.
    logging.getLogger("bussrv.client").addHandler(_UNHEARD)
    place = connection.place(wire_format)
    if place.tls is not None:
        place.tls.context()  # An error of a file is told as such, and not as one of the connection.
    stays = reconnect or wire_format == "inbus"
    return connect(
        f"{SCHEMES[wire_format]}://{place.address}",
        **place.credentials.given(),
        name="bussrv",
        tls=place.tls,
        insecure=connection.insecure,
        timeout=place.timeout,
        offline="wait" if stays else "raise",
        reconnect=Backoff() if stays else None,
        on_state=on_state or ConnectionNotes().note,
    )


def speaker() -> Callable[[str], None]:
    """Says sentences of this command on standard error, beside its output; from any thread."""
    context = click.get_current_context(silent=True)
    who = "bussrv" if context is None else context.command_path

    def say(sentence: str) -> None:
        print(f"{who}: {one_line(sentence)}", file=sys.stderr, flush=True)

    return say


class ConnectionNotes:
    """Says on standard error that the server is away, once; that it is back; and what it does not accept any more."""

    def __init__(self) -> None:
        self._say = speaker()
        self._is_away = False

    def note(self, state: State) -> None:
        """Say it. An end for good is an error of the command, and not said here."""
        from bussrv.client.events import Down, Restored, Up

        if isinstance(state, Down) and state.retry_in is not None and not self._is_away:
            self._is_away = True
            self._say(f"{state.message}; trying again until the server is back")
        elif isinstance(state, Up) and self._is_away:
            self._is_away = False
            self._say(f"connected to {state.address}")
        elif isinstance(state, Restored) and state.refused:
            refused = ", ".join(f"{name} ({why})" for name, why in state.refused.items())
            self._say(f"the server does not accept any more: {refused}")
