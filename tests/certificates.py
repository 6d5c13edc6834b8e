"""Keys and certificates that tests make for themselves."""

import datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

BEGIN = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
END = datetime.datetime(2090, 1, 1, tzinfo=datetime.timezone.utc)
PEM = serialization.Encoding.PEM


class Pair(NamedTuple):
    """The files of a key and of its certificate."""

    key: Path
    certificate: Path


class Authority:
    """Signs certificates, its own as well.

    :ivar file: its certificate.
    """

    def __init__(self, stem: Path, signed_by: "Authority | None" = None) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(stem.name)
        self.file = stem.with_suffix(".pem")
        signer = self if signed_by is None else signed_by
        _sign(signer, self._name, self._key, self.file, x509.BasicConstraints(True, None), BEGIN, END)

    def pair(
        self, stem: Path, name: str = "localhost", begin: datetime.datetime = BEGIN, end: datetime.datetime = END
    ) -> Pair:
        """Make a key, and sign a certificate for it. :returns: the files ``stem``.key and ``stem``.crt."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = Pair(stem.with_suffix(".key"), stem.with_suffix(".crt"))
        _write_key(key, made.key)
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        _sign(self, _name(name), key, made.certificate, names, begin, end)
        return made


def self_signed(stem: Path) -> tuple[Path, Path]:
    """Make a key, and its own certificate for localhost. :returns: the files ``stem``.key and ``stem``.crt."""
    authority = Authority(stem)
    authority._name = _name("localhost")
    files = stem.with_suffix(".key"), stem.with_suffix(".crt")
    _write_key(authority._key, files[0])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    _sign(authority, authority._name, authority._key, files[1], names, BEGIN, END)
    return files


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _write_key(key: ec.EllipticCurvePrivateKey, file: Path) -> None:
    kept = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.touch(0o600)
    file.write_bytes(kept)


def _sign(
    signer: Authority,
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    file: Path,
    extension: x509.ExtensionType,
    begin: datetime.datetime,
    end: datetime.datetime,
) -> None:
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer._name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        .sign(signer._key, hashes.SHA256())
    )
    file.write_bytes(made.public_bytes(PEM))
