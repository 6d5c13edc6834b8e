"""Certificates and keys for TLS: read from files and checked, so that each fault names its file.

The private key of an endpoint is a file in PEM that only its owner may use. Its certificate is a file in PEM, too, and
certificates of intermediate authorities may follow it. Authorities are a file of certificates, or a directory of such
files, ``*.pem``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from bussrv.errors import ConfigError, os_errors_as
from bussrv.journal.regular import read_regular

MOST = 16 << 20
"""The most bytes of a file: one that is larger has no certificates."""


class TlsIdentity(NamedTuple):
    """A private key, and the certificates that prove whose it is.

    :ivar pem: all of them. Secret.
    :ivar ends: the first moment at which one of the certificates is not valid any more.
    """

    pem: bytes
    ends: datetime


class Authorities(NamedTuple):
    """Certificates of authorities that are trusted.

    :ivar ends: the first moment at which one of them is not valid any more.
    """

    pem: str
    ends: datetime


def read_identity(key_file: Path, certificate_file: Path, chain_file: Path | None, now: datetime) -> TlsIdentity:
    """Read a private key and its certificates.

    :param chain_file: the certificates of intermediate authorities that the file of the certificate lacks.
    :raises ConfigError: names the file, and what is wrong with it.
    """
    key = _read_key(key_file)
    certificates = _read_certificates(certificate_file, now)
    if _public(key) != certificates[0].public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo):
        raise ConfigError(f"{certificate_file}: the certificate does not fit the private key in {key_file}")
    if chain_file is not None:
        certificates += _read_certificates(chain_file, now)
    kept = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return TlsIdentity(kept + b"".join(map(_pem, certificates)), _first_end(certificates))


def read_authorities(path: Path, now: datetime) -> Authorities:
    """Read the certificates of authorities: a file, or all files ``*.pem`` of a directory.

    :raises ConfigError: names the file, and what is wrong with it.
    """
    files = sorted(path.glob("*.pem")) if path.is_dir() else [path]
    if not files:
        raise ConfigError(f"{path}: the directory has no files *.pem")
    certificates = [each for file in files for each in _read_certificates(file, now)]
    return Authorities(b"".join(map(_pem, certificates)).decode(), _first_end(certificates))


def _read(path: Path) -> tuple[bytes, int]:
    """The content and the permissions of a file."""
    with os_errors_as(ConfigError, f"{path}: cannot be read"), read_regular(path) as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        data = file.read(MOST)
    if not data.strip():
        raise ConfigError(f"{path}: the file is empty")
    return data, mode


def _read_key(path: Path) -> PrivateKeyTypes:
    data, mode = _read(path)
    if b"PRIVATE KEY-----" not in data:
        raise ConfigError(f"{path}: holds no private key in PEM")
    check_private(path, mode, "key")
    try:
        return load_pem_private_key(data, None)
    except TypeError as error:
        raise ConfigError(f"{path}: the private key is encrypted; store it without a passphrase") from error
    except Exception as error:
        # The exception depends on the version of cryptography.
        raise ConfigError(f"{path}: the private key cannot be read") from error


def check_private(path: Path, mode: int, what: str) -> None:
    """Check that only its owner may use a file with a secret.

    :param mode: the mode of the file.
    :param what: the secret is a ``key`` or a ``token``.
    :raises ConfigError: others may.
    """
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        secret = "private key" if what == "key" else what
        raise ConfigError(
            f"{path}: others than its owner may use the {secret} (mode {stat.S_IMODE(mode):04o}): chmod 600 {path}, "
            f"and make a new {what} if somebody may have read it"
        )


def _read_certificates(path: Path, now: datetime) -> list[x509.Certificate]:
    """The certificates of a file, all of them valid now; at least one."""
    data, _ = _read(path)
    if b"-----BEGIN CERTIFICATE-----" not in data:
        raise ConfigError(f"{path}: holds no certificate in PEM")
    try:
        certificates = x509.load_pem_x509_certificates(data)
        for each in certificates:
            _check_time(path, each, now)
    except ValueError as error:
        raise ConfigError(f"{path}: a certificate in it cannot be read") from error
    return certificates


def _check_time(path: Path, certificate: x509.Certificate, now: datetime) -> None:
    whose = certificate.subject.rfc4514_string()
    if certificate.not_valid_after_utc < now:
        raise ConfigError(f"{path}: the certificate of {whose} expired at {certificate.not_valid_after_utc:%Y-%m-%d}")
    if certificate.not_valid_before_utc > now:
        begin = certificate.not_valid_before_utc
        raise ConfigError(f"{path}: the certificate of {whose} is not valid before {begin:%Y-%m-%d %H:%M} UTC")


def _public(key: PrivateKeyTypes) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _first_end(certificates: Iterable[x509.Certificate]) -> datetime:
    return min(each.not_valid_after_utc for each in certificates)
