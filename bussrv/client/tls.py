"""Connections of the clients of stream formats, perhaps over TLS."""

from __future__ import annotations

import os
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Tls"]

_PLAINLY = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the server wants a certificate of this client",
    "TLSV1_ALERT_UNKNOWN_CA": "the server does not accept the certificate of this client",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the server does not accept the certificate of this client",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the certificate of this client has expired",
    "WRONG_VERSION_NUMBER": "the server does not speak TLS there",
}

PERHAPS_TLS = "before the server sent anything: does that port speak TLS?"
"""Follows a sentence about a connection without TLS that the server closed."""

File = str | os.PathLike[str]


@dataclass(frozen=True)
class Tls:
    """Connect over TLS. The server has to prove who it is.

    :ivar ca: a file in PEM, the certificates of authorities that may sign the server's; ``None``: those that the system
        trusts.
    :ivar certificate: a file in PEM, the certificate of this client; ``None``: it has none.
    :ivar key: a file in PEM, its private key; ``None``: it is in the file of the certificate.
    :ivar server_name: the name in the server's certificate; ``None``: the host that is connected to.
    """

    ca: File | None = None
    certificate: File | None = None
    key: File | None = None
    server_name: str | None = None

    def context(self) -> ssl.SSLContext:
        """The settings as the standard library has them.

        :raises OSError: a file cannot be read.
        :raises ValueError: a file has no such thing in it, or the key does not fit the certificate.
        """
        for file in (self.ca, self.certificate, self.key):
            if file is not None:
                Path(file).open("rb").close()  # The standard library would not say which file it is.
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except ssl.SSLError as error:
            raise ValueError(f"{self.ca} has no certificates in PEM") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate is not None:
            self._show(context, self.certificate)
        elif self.key is not None:
            raise ValueError(f"the key {self.key} needs its certificate")
        return context

    def _show(self, context: ssl.SSLContext, certificate: File) -> None:
        try:
            # Without a password, OpenSSL would ask for the passphrase on the terminal.
            context.load_cert_chain(certificate, self.key, password="")
        except ssl.SSLError as error:
            key = "" if self.key is None else f" with the key {self.key}"
            raise ValueError(f"{certificate} cannot be used{key}: {explain(error)}") from error


def secured(tls: Tls | ssl.SSLContext | None, host: str) -> tuple[ssl.SSLContext | None, str]:
    """The settings of a connection to a host, as the standard library has them, and the name in its certificate.

    :raises OSError, ValueError: as :meth:`Tls.context` does.
    """
    if isinstance(tls, Tls):
        return tls.context(), tls.server_name or host
    return tls, host


def dial(
    host: str, port: int | None, timeout: float | None, context: ssl.SSLContext | None, name: str
) -> socket.socket:
    """Connect a socket.

    :param host: the host; of a UNIX socket, its path, with ``port=None``.
    :param timeout: the seconds that the server has for each step; ``None`` for ever.
    :param context, name: see :func:`secured`.
    :raises ConnectionError: the server cannot be reached, or does not prove who it is.
    :raises TimeoutError: it does not answer.
    """
    where, within = place(host, port), "" if timeout is None else f" within {timeout:g} s"
    try:
        connection = _connected(host, port, timeout)
    except TimeoutError as error:
        raise TimeoutError(f"{where} did not take the connection{within}") from error
    except OSError as error:
        raise ConnectionError(f"cannot connect to {where}: {explain(error)}") from error
    if context is None:
        return connection
    try:
        return context.wrap_socket(connection, server_hostname=name)
    except TimeoutError as error:
        raise TimeoutError(f"{where} did not finish the TLS handshake{within}") from error
    except OSError as error:
        raise ConnectionError(f"no TLS with {where}: {explain(error)}") from error
    finally:
        connection.close()  # If it is used, it is the other's now.


def place(host: str, port: int | None) -> str:
    """The place of a server, for sentences; the arguments are those of :func:`dial`."""
    return f"unix:{host}" if port is None else f"{host} port {port}"


def _connected(host: str, port: int | None, timeout: float | None) -> socket.socket:
    if port is not None:
        connection = socket.create_connection((host, port), timeout)
        # Small packets are sent at once.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(host)
    except OSError:
        connection.close()
        raise
    return connection


def explain(error: OSError) -> str:
    """The reason for an error of a connection, in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the server is not accepted: {error.verify_message.rstrip('.')}"
    if not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    reason = error.reason or str(error)
    return _PLAINLY.get(reason) or reason.replace("_", " ").lower()
