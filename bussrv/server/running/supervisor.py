"""Messages to the service manager about the state of the server. Source: sd_notify(3), for ``Type=notify`` units.

The manager names a UNIX datagram socket in ``NOTIFY_SOCKET``. With ``WATCHDOG_USEC`` it requires a sign of life at
least once in so many microseconds. If none comes, because the reactor hangs, it starts the server again.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from twisted.internet.task import LoopingCall
from twisted.logger import Logger

log = Logger()


class Supervisor:
    """The service manager that started the server, if there is one.

    :param environment: the variables of the process.
    """

    def __init__(self, environment: Mapping[str, str], reactor: Any) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        pause = environment.get("WATCHDOG_USEC", "")
        self._pause = int(pause) / 1_000_000 if pause.isdecimal() else 0.0
        self._is_silent = False
        self._signs = LoopingCall(self._say, "WATCHDOG=1")
        self._signs.clock = reactor

    def ready(self) -> None:
        """Tell the manager that the server is ready. From now on, give signs of life, if the manager requires them."""
        self._say("READY=1")
        if self._address and self._pause:
            self._signs.start(self._pause / 2)

    def stopping(self) -> None:
        """Tell the manager that the server stops. Signs of life continue until it has stopped."""
        self._say("STOPPING=1")

    def _say(self, words: str) -> None:
        if not self._address:
            return
        # A name that begins with @ is in the abstract namespace.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                manager.setblocking(False)
                manager.sendto(words.encode(), address)
            self._is_silent = False
        except OSError as error:
            if not self._is_silent:
                log.warn(
                    "the service manager cannot be told {words}: {error}",
                    event="supervisor.silent",
                    words=words,
                    error=error,
                )
            self._is_silent = True
