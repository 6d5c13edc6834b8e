"""A cluster of Kafka: its brokers, the ways in, and arguments for the clients of aiokafka."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiokafka.conn import create_conn
from aiokafka.errors import AuthenticationFailedError, KafkaConnectionError

from bussrv.addresses import is_local
from bussrv.client.tls import Tls
from bussrv.errors import ConfigError

PLAIN, SECURE = "kafka://", "kafkas://"
PORT = 9092

REQUEST_TIMEOUT = 20_000
"""Milliseconds for which a client of Kafka waits for an answer, and tries to send a batch."""

OPEN_SECONDS, CLOSE_SECONDS = 60.0, 5.0
"""The limits for opening and for closing a client of Kafka."""

Client = TypeVar("Client", bound=Any)

_SERVER = re.compile(r"(\[[^\[\]]+\]|[^\[\]:]+)(?::([0-9]{1,5}))?")

MECHANISMS = {"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"}


@dataclass(frozen=True)
class Sasl:
    """A login.

    :ivar mechanism: a key of :data:`MECHANISMS`.
    """

    mechanism: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Cluster:
    """A cluster.

    :ivar servers: host and port of the brokers to ask first.
    :ivar name: its address, for people.
    """

    servers: tuple[tuple[str, int], ...]
    tls: ssl.SSLContext | None = None
    sasl: Sasl | None = None

    @property
    def name(self) -> str:
        """The address, for people."""
        return (SECURE if self.tls else PLAIN) + ",".join(f"{host}:{port}" for host, port in self.servers)

    def arguments(self) -> dict[str, Any]:
        """The arguments of a producer, consumer or admin client of aiokafka."""
        servers = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.servers]
        return {"bootstrap_servers": servers, "request_timeout_ms": REQUEST_TIMEOUT, **self._security()}

    def _security(self) -> dict[str, Any]:
        protocol = ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")
        found: dict[str, Any] = {"security_protocol": protocol, "ssl_context": self.tls}
        if self.sasl is not None:
            found["sasl_mechanism"] = MECHANISMS[self.sasl.mechanism]
            found["sasl_plain_username"], found["sasl_plain_password"] = self.sasl.user, self.sasl.password
        return found

    async def check(self) -> None:
        """Connect to one of the brokers, and log in. The clients of aiokafka do not say why they cannot.

        :raises KafkaConnectionError: none of them accepts the connection.
        :raises AuthenticationFailedError: one of them does not accept the login.
        """
        errors: list[str] = []
        for host, port in self.servers:
            error = await self._error_of(host, port)
            if error is None:
                return
            errors.append(f"{host}:{port}: {error}")
        raise KafkaConnectionError("; ".join(errors))

    async def _error_of(self, host: str, port: int) -> str | None:
        """Why a broker does not accept a connection; ``None``: it does."""
        try:
            # The time-out of a request is too long to wait for a machine that is not there.
            connection = await create_conn(host, port, request_timeout_ms=REQUEST_TIMEOUT // 4, **self._security())
        except KafkaConnectionError as error:
            return str(error.args[0]) if error.args else "the connection was closed"
        except ssl.SSLError as error:
            return f"TLS: {getattr(error, 'verify_message', None) or error.reason}"
        except (KeyError, ValueError) as error:
            if self.sasl is None:
                raise
            # The client of Kafka does not expect that SCRAM is answered by an error.
            raise AuthenticationFailedError("the broker does not know the user, or the password is wrong") from error
        except asyncio.TimeoutError:
            return "no answer in time"
        except OSError as error:
            return error.strerror or str(error)
        connection.close()
        return None


@asynccontextmanager
async def opened(client: Client) -> AsyncIterator[Client]:
    """A producer or consumer of aiokafka, from its start to its end."""
    try:
        await asyncio.wait_for(client.start(), OPEN_SECONDS)
        yield client
    finally:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(client.stop(), CLOSE_SECONDS)


def parse(url: str, sasl: Sasl | None, tls: Tls, *, insecure: bool = False) -> Cluster:
    """The cluster of an URL ``kafka://HOST[:PORT][,HOST[:PORT]…]``; with TLS: ``kafkas://``.

    :param insecure: whether a password may cross the network as it is.
    :raises ConfigError: it is no such URL, or a file cannot be used, or others could read the password on the way.
    """
    secure = url.startswith(SECURE)
    rest = url.removeprefix(SECURE if secure else PLAIN).removesuffix("/")
    if "@" in rest:
        raise ConfigError("a password does not belong into an URL: use --kafka-user and --kafka-password-file")
    if "/" in rest or "?" in rest:
        raise ConfigError(f"{url}: an URL of Kafka has hosts and ports only: kafka://HOST:PORT,HOST:PORT")
    servers = tuple(_server(each, url) for each in rest.split(","))
    context = _context(tls) if secure else None
    if not secure and tls != Tls():
        raise ConfigError(f"{url} is an address without TLS, and files for TLS are given: write kafkas://")
    is_open = sasl is not None and sasl.mechanism == "plain" and not secure
    if is_open and not insecure and not all(host == "localhost" or is_local(host) for host, _ in servers):
        raise ConfigError(
            f"{url} is on another machine, and not reached over TLS: the password would be readable on the way (write "
            "kafkas://, or --insecure if you accept that)"
        )
    return Cluster(servers, context, sasl)


def _server(text: str, url: str) -> tuple[str, int]:
    found = _SERVER.fullmatch(text)
    port = PORT if found is None or found[2] is None else int(found[2])
    if found is None or not 0 < port < 1 << 16:
        raise ConfigError(f"{url}: {text!r} is no HOST or HOST:PORT")
    return found[1].strip("[]"), port


def _context(tls: Tls) -> ssl.SSLContext:
    try:
        return tls.context()
    except (OSError, ValueError) as error:
        raise ConfigError(str(error)) from error
