"""``bussrv alive``: ask the ports of a server on this machine for a sign of life."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import sys

import click

from bussrv.cli.command import command
from bussrv.cli.show import output

SECONDS = 5.0

_HANDSHAKE = 0x16
_RECORD = 1 << 14
_PROXY = "haproxy:"
_ANY = {"tcp": "0.0.0.0", "ssl": "0.0.0.0", "tcp6": "::"}
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@command(
    examples=("bussrv alive bussrv.toml",),
    statuses={0: "all of them answer", 1: "one does not, or there is none"},
)
@click.argument("file", metavar="FILE")
@click.option(
    "--seconds",
    metavar="S",
    type=float,
    default=SECONDS,
    show_default=True,
    help="The time that each port has to answer.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON, with the faults.")
def alive(file: str, seconds: float, as_json: bool) -> int:
    """Connect to each TCP port and UNIX socket that a configuration file names, on this machine, and wait for an
    answer. A port with TLS answers with its handshake, another port by closing the connection. The command does not log
    in. A port without TLS may journal a session that opened and closed. Environment variables such as BUSSRV_OBJECTS
    override the file, as in the server.
    """
    from bussrv.errors import ConfigError
    from bussrv.server.configuration.options import config_of, plugins
    from bussrv.terminal import one_line

    faults: list[str] = []
    asked = 0
    try:
        for name, description in config_of(file, plugins()).endpoints.items():
            if description.startswith("udp:"):
                continue
            asked += 1
            try:
                _ask(description, seconds)
            except (OSError, ValueError, LookupError) as error:
                faults.append(f"{name}: no sign of life at {description}: {error}")
        if not asked:
            faults.append(f"{file}: names no TCP port and no UNIX socket that could be asked")
    except ConfigError as error:
        faults += error.sentences
    if as_json:
        output.json_line({"alive": not faults, "faults": faults})
    else:
        for each in faults:
            print(f"bussrv alive: {one_line(each)}", file=sys.stderr)
    return 1 if faults else 0


def _ask(description: str, seconds: float) -> None:
    """Wait for an answer at an endpoint.

    :raises OSError: there is none in time.
    :raises ValueError: the description has no port that can be asked.
    """
    with _connect(description.removeprefix(_PROXY), seconds) as asked:
        if description.startswith("ssl:"):
            # End with a reset: the server would log an orderly end of an unfinished handshake as a fault.
            asked.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            asked.sendall(_hello())
            if asked.recv(_RECORD)[:1] != bytes([_HANDSHAKE]):
                raise ConnectionError("it does not speak TLS")
        else:
            # A server that is alive closes its side when the client has closed its own.
            asked.shutdown(socket.SHUT_WR)
            while asked.recv(_RECORD):
                pass


def _connect(description: str, seconds: float) -> socket.socket:
    from bussrv.net.transport.endpoint_parts import take_apart

    parts = take_apart(description)
    kind, *places = parts.values
    if kind == "unix":
        asked = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        asked.settimeout(seconds)
        asked.connect(parts.named.get("address") or places[0])
        return asked
    if kind not in ("tcp", "tcp6", "ssl"):
        raise ValueError("only tcp:, tcp6:, ssl: and unix: can be asked")
    host = parts.named.get("interface") or (places[1] if len(places) > 1 else _ANY[kind])
    return socket.create_connection((_LOOPBACK.get(host, host), int(parts.named.get("port") or places[0])), seconds)


def _hello() -> bytes:
    """The first bytes of a handshake. The handshake is not continued, so the certificate need not be checked."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()
