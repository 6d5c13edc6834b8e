"""The settings of TLS, kept in one place for ports and for links, and certificates that can be read again.

- TLS 1.2 or 1.3; with 1.2 only key exchanges with forward secrecy and ciphers that authenticate what they encrypt.
- No renegotiation and no compression.
- No resumption: sessions of the bus are long, a resumed handshake would not check the certificate of the client again,
  and keys of tickets would weaken forward secrecy.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple

from zope.interface import implementer

from bussrv.bus.interfaces import Effects, IReloadable, Use
from bussrv.errors import ConfigError
from bussrv.net.tls.certificates import Authorities, TlsIdentity, read_authorities, read_identity

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2; all of TLS 1.3 are good."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, kw_only=True)
class TlsFiles:
    """The files of one end of connections.

    :ivar key: the private key of this end; ``None``: it has no certificate.
    :ivar certificate: the certificate of the key; certificates of intermediate authorities may follow it.
    :ivar chain: the certificates of further intermediate authorities.
    :ivar authorities: the authorities that may sign the certificate of the other end. ``None`` at a port: it asks for
        no certificate. ``None`` at a link: the authorities that the system trusts.
    :ivar is_port: whether this end is a port.
    :ivar is_required: whether a client has to have a certificate.
    """

    key: Path | None = None
    certificate: Path | None = None
    chain: Path | None = None
    authorities: Path | None = None
    is_port: bool = True
    is_required: bool = True


class _Loaded(NamedTuple):
    """:ivar ends: when the first certificate expires, which is in ``file``.

    :ivar texts: the keys and certificates as they were read. Secret.
    """

    context: ssl.SSLContext
    ends: datetime | None
    file: Path | None
    texts: tuple[object, ...]


@implementer(IReloadable)
class Certificates:
    """The certificates of one end, ready for connections.

    :param name: the name of this end, for errors and the log.
    :param utc: returns the present time, UTC microseconds.
    :raises ConfigError: they cannot be used.
    """

    def __init__(self, name: str, files: TlsFiles, utc: Callable[[], int]) -> None:
        self.name = name
        self._files = files
        self._utc = utc
        self._loaded = self._load()

    @property
    def context(self) -> ssl.SSLContext:
        """The context for new connections."""
        return self._loaded.context

    def prepare(self) -> Use:
        """Read and check all files again; see :class:`bussrv.bus.interfaces.IReloadable`."""
        loaded = self._load()

        def use() -> Effects | None:
            before, self._loaded = self._loaded, loaded
            return None if loaded.texts == before.texts else Effects((f"{self.name}: {self._shown()}",))

        return use

    def _shown(self) -> str:
        file, ends = self.file, self._loaded.ends
        return f"{file}: " + ("read again" if ends is None else f"valid until {ends:%Y-%m-%dT%H:%M:%SZ}")

    @property
    def file(self) -> Path | None:
        """The file of the certificate that expires first; ``None``: no file is named."""
        return self._loaded.file

    def reload(self) -> None:
        """Read all files again. New connections use what is in them, if all of them can be used.

        :raises ConfigError: names the file and what is wrong with it; nothing has changed then.
        """
        self.prepare()()

    def days_left(self) -> int | None:
        """Whole days until the first certificate expires, less than 0 after that; ``None``: there is none."""
        ends = self._loaded.ends
        return None if ends is None else (ends - self._now()).days

    def _now(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self._utc())

    def _load(self) -> _Loaded:
        files, now = self._files, self._now()
        identity = authorities = None
        if files.key is not None:
            identity = read_identity(files.key, files.certificate or files.key, files.chain, now)
        if files.authorities is not None:
            authorities = read_authorities(files.authorities, now)
        ends = [(identity.ends, files.certificate or files.key)] if identity is not None else []
        ends += [(authorities.ends, files.authorities)] if authorities is not None else []
        first, file = min(ends, key=lambda each: each[0], default=(None, None))
        texts = tuple(None if each is None else each.pem for each in (identity, authorities))
        return _Loaded(_make_context(files, identity, authorities), first, file, texts)


def _make_context(files: TlsFiles, identity: TlsIdentity | None, authorities: Authorities | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if files.is_port else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    if identity is not None:
        _use(context, identity, files)
    if files.is_port:
        context.num_tickets = 0
        if authorities is not None:
            context.verify_mode = ssl.CERT_REQUIRED if files.is_required else ssl.CERT_OPTIONAL
    if authorities is not None:
        # An intermediate authority may be trusted without the one above it.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=authorities.pem)
    elif not files.is_port:
        context.load_default_certs()
    return context


def _use(context: ssl.SSLContext, identity: TlsIdentity, files: TlsFiles) -> None:
    """Use what was read and checked. The files may be others by now, and the system's library only reads files."""
    descriptor = os.memfd_create("bussrv-tls")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(identity.pem)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    except ssl.SSLError as error:
        why = (error.reason or str(error)).replace("_", " ").lower()
        raise ConfigError(f"{files.certificate or files.key}: the certificate cannot be used: {why}") from error
    finally:
        os.close(descriptor)
