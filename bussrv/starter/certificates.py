"""The first certificates of a server: a self-signed authority, and a certificate of the server that it signed. Pure.

Clients trust the authority. So a thief of its key can make certificates in the name of any server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

AUTHORITY_DAYS = 3650
"""Days that the authority is valid."""

SERVER_DAYS = 825
"""Days that the server's certificate is valid. Some systems refuse certificates that are valid for longer."""

EARLIER = timedelta(days=1)
"""Certificates are valid from this long before they are made, because clocks differ."""

MAX_COMMON_NAME = 64
"""The most characters of the common name of a certificate."""

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*\.?")
_MAX_HOST = 253


class StarterCertificates(Struct, frozen=True):
    """An authority and a server: the certificate of each and its private key, in PEM."""

    authority: bytes
    authority_key: bytes
    server: bytes
    server_key: bytes


def check_name(name: str) -> str:
    """Return ``name`` if it is a host name or an IP address.

    :raises ValueError: it is neither.
    """
    _alternative(name)
    return name


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        if len(name) > _MAX_HOST or _HOST.fullmatch(name) is None:
            raise ValueError(f"{name!r} is neither a host name nor an IP address") from None
        return x509.DNSName(name.rstrip("."))


def make_certificates(names: Iterable[str], now: datetime) -> StarterCertificates:
    """Make an authority, and a certificate of the server that clients reach by any of ``names``.

    :param names: host names and IP addresses; the first one names the server.
    :raises ValueError: one of them is neither.
    """
    names = list(names)
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority_name = _name(f"bussrv authority of {names[0]}")
    begin = now - EARLIER
    authority = (
        _builder(authority_name, authority_name, authority_key, authority_key, begin, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, SHA256())
    )
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    server = (
        _builder(_name(names[0]), authority_name, server_key, authority_key, begin, SERVER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        # A server that links to another one is its client.
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectAlternativeName(list(map(_alternative, names))), critical=False)
        .sign(authority_key, SHA256())
    )
    return StarterCertificates(_pem(authority), _private_pem(authority_key), _pem(server), _private_pem(server_key))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:MAX_COMMON_NAME])])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    begin: datetime,
    days: int,
) -> x509.CertificateBuilder:
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(by, critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
