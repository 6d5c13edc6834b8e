"""The certificates of a server: a self-signed authority, and a certificate of the server that it signed. Pure.

Clients trust the authority. So a thief of its key can make certificates in the name of any server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

AUTHORITY = timedelta(days=3650)
"""How long the authority is valid."""

SERVER = timedelta(days=825)
"""How long the server's certificate is valid. Some systems refuse certificates that are valid for longer."""

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
        _builder(authority_name, authority_name, authority_key.public_key(), authority_key, begin, begin + AUTHORITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, SHA256())
    )
    server = _sign(names, server_key.public_key(), authority, authority_key, now)
    return StarterCertificates(_pem(authority), _private_pem(authority_key), _pem(server), _private_pem(server_key))


def renew_certificate(
    certificate: bytes, authority: bytes, authority_key: bytes, now: datetime, names: Sequence[str] = ()
) -> tuple[bytes, datetime]:
    """Make a certificate that takes the place of another one, with the same private key.

    :param certificate, authority, authority_key: in PEM.
    :param names: the names of the server instead of those that it has.
    :returns: the new certificate in PEM, and when it ends: never after its authority.
    :raises ValueError: the authority did not sign the certificate, is not valid any more, has another key, or a name is
        malformed.
    """
    old, issuer = _read(certificate, "the certificate"), _read(authority, "the certificate of the authority")
    key = _read_key(authority_key)
    if key.public_key() != issuer.public_key():
        raise ValueError("the key is not that of the authority")
    try:
        old.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        raise ValueError("another authority signed the certificate") from None
    if issuer.not_valid_after_utc <= now:
        raise ValueError(
            f"the certificate of the authority expired at {issuer.not_valid_after_utc:%Y-%m-%d}: make a new server"
        )
    public = old.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise ValueError("the certificate is not one that bussrv init made: its key is no key of an elliptic curve")
    new = _sign(names or names_of(old), public, issuer, key, now)
    return _pem(new), new.not_valid_after_utc


def names_of(certificate: x509.Certificate) -> list[str]:
    """The host names and addresses of a certificate, that of its server first."""
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(each.value) for each in found if isinstance(each, x509.DNSName | x509.IPAddress)]


def _read(text: bytes, what: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(text)
    except ValueError as error:
        raise ValueError(f"{what} is no certificate in PEM: {error}") from error


def _read_key(text: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(text, None)
    except (ValueError, TypeError) as error:
        raise ValueError(f"the key of the authority is no private key in PEM: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of the authority is not one that bussrv init made")
    return key


def _sign(
    names: Sequence[str],
    public: ec.EllipticCurvePublicKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> x509.Certificate:
    """Sign a certificate of a server, which is valid until its authority ends at the latest."""
    begin = now - EARLIER
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    end = min(begin + SERVER, authority.not_valid_after_utc)
    return (
        _builder(_name(names[0]), authority.subject, public, authority_key, begin, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        # A server that links to another one is its client.
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectAlternativeName(list(map(_alternative, names))), critical=False)
        .sign(authority_key, SHA256())
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:MAX_COMMON_NAME])])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    begin: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
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
