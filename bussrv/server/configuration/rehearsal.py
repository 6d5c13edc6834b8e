"""A rehearsal of a start, for ``bussrv check``: nothing is opened or made. It is refused for the reasons of the system.

Whether another program has a port at the moment is not asked: it may be the server whose file is checked.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path
from typing import Any, NoReturn

from twisted.internet.abstract import isIPv6Address
from twisted.internet.error import CannotListenError

_PRIVILEGED = 1024
"""Ports below it may need a privilege. Only these are tried; for others a free port of the address stands."""

_LONGEST_PATH = 107
"""The most bytes of the path of a Unix socket."""

_LOCK = b".lock"
"""The ending that Twisted adds to the path of a Unix socket for the file that locks it."""

_C_INT = range(-(1 << 31), 1 << 31)


class WouldListen(CannotListenError):
    """The port was not opened, although it could be."""


class Rehearsal:
    """A reactor that opens no port.

    :param reactor: does everything else.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> NoReturn:  # noqa: N802
        """Try to get the address of a TCP port.

        :raises WouldListen: the port can be opened.
        :raises CannotListenError: it cannot.
        :raises OverflowError: a number is too large.
        """
        _fit(backlog)
        _try(socket.SOCK_STREAM, port, interface)

    def listenUDP(  # noqa: N802
        self,
        port: int,
        protocol: Any,
        interface: str = "",
        maxPacketSize: int = 8192,  # noqa: N803
    ) -> NoReturn:
        """Try to get the address of a UDP port; raises as :meth:`listenTCP`."""
        _try(socket.SOCK_DGRAM, port, interface)

    def listenUNIX(  # noqa: N802
        self,
        address: Any,
        factory: Any,
        backlog: int = 50,
        mode: int = 0o666,
        wantPID: int = 0,  # noqa: N803
    ) -> NoReturn:
        """Look whether a Unix socket can be made; raises as :meth:`listenTCP`, and like this:

        :raises OSError: the file that locks the socket cannot be made.
        """
        _fit(backlog, mode)
        name = os.fsencode(address)
        if not name.startswith(b"\0"):
            if wantPID:
                lock = os.fsdecode(name + _LOCK)
                why = why_not_made(Path(lock))
                if why is not None:
                    raise OSError(why, os.strerror(why), lock)
            _try_socket(name)
        raise WouldListen(None, name, None)

    def adoptStreamPort(self, fileno: int, *_: Any) -> NoReturn:  # noqa: N802
        """Look whether there is a socket that somebody opened before; raises as :meth:`listenTCP`."""
        try:
            is_socket = stat.S_ISSOCK(os.fstat(fileno).st_mode)
        except OSError as error:
            raise CannotListenError(None, fileno, error) from error
        if not is_socket:
            why = OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
            raise CannotListenError(None, fileno, why)
        raise WouldListen(None, fileno, None)


def _fit(*numbers: int) -> None:
    if any(each not in _C_INT for each in numbers):
        raise OverflowError("too large for the system")


def _try(kind: socket.SocketKind, port: int, interface: str) -> NoReturn:
    family = socket.AF_INET6 if isIPv6Address(interface) else socket.AF_INET
    try:
        with socket.socket(family, kind) as tried:
            # A socket that does not listen takes no connection, and another process may have a free port at once.
            tried.bind((interface, port if port not in range(_PRIVILEGED, 1 << 16) else 0))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise CannotListenError(interface, port, error) from error
    raise WouldListen(interface, port, None)


def _try_socket(name: bytes) -> None:
    path = Path(os.fsdecode(name))
    why = errno.EADDRINUSE if os.path.lexists(path) and not path.is_socket() else why_not_made(path)
    if len(name) > _LONGEST_PATH:
        raise CannotListenError(None, name, OSError("AF_UNIX path too long"))
    if why is not None:
        raise CannotListenError(None, name, OSError(why, os.strerror(why)))


def why_not_made(path: Path) -> int | None:
    """The number of the error in which making a file would end; ``None``: it can be made, or is there."""
    directory = path.parent
    try:
        path.lstat()
    except OSError as error:
        if error.errno != errno.ENOENT or not directory.is_dir():
            return error.errno
        if os.access(directory, os.W_OK | os.X_OK):
            return None
        return errno.EROFS if os.statvfs(directory).f_flag & os.ST_RDONLY else errno.EACCES
    return None
