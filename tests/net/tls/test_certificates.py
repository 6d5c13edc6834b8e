"""Keys and certificates: each fault names its file and says what is wrong."""

import os
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from bussrv.errors import ConfigError
from bussrv.net.tls.certificates import read_authorities, read_identity
from tests.certificates import BEGIN, END, PEM, Authority
from tests.tables import check_each

NOW = BEGIN + timedelta(days=1000)
OPEN = (
    "others than its owner may use the private key (mode 0640): chmod 600 DIR/open.key, and make a new key if somebody "
    "may have read it"
)
LAST, NEXT = NOW - timedelta(days=1), NOW + timedelta(days=1)


def test_each_fault_names_its_file(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    key, certificate = authority.pair(tmp_path / "good")
    other = authority.pair(tmp_path / "other")
    old = authority.pair(tmp_path / "old", end=LAST)
    new = authority.pair(tmp_path / "new", begin=NEXT)
    private = load_pem_private_key(key.read_bytes(), None)
    locked = private.private_bytes(PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    for name, text in {
        "empty": b"\n",
        "junk": b"junk",
        "locked": locked,
        "torn.key": key.read_bytes()[:100],
        "open.key": key.read_bytes(),
        "torn.crt": certificate.read_bytes()[:100],
        "spoilt.crt": certificate.read_bytes().replace(b"M", b"N", 1),
    }.items():
        (tmp_path / name).write_bytes(text)
        (tmp_path / name).chmod(0o640 if name == "open.key" else 0o600)
    os.mkfifo(tmp_path / "fifo")

    def check(row: tuple[Path, Path, Path | None, str]) -> None:
        with pytest.raises(ConfigError) as caught:
            read_identity(*row[:3], NOW)
        assert str(caught.value) == row[3].replace("DIR", str(tmp_path))

    check_each(
        [
            (f"{a} {b} {c}", (tmp_path / a, tmp_path / b, None if c is None else tmp_path / c, said))
            for a, b, c, said in (
                ("none", "good.crt", None, "DIR/none: cannot be read: No such file or directory"),
                ("fifo", "good.crt", None, "DIR/fifo: cannot be read: it is not a regular file"),
                ("empty", "good.crt", None, "DIR/empty: the file is empty"),
                ("junk", "good.crt", None, "DIR/junk: holds no private key in PEM"),
                ("torn.key", "good.crt", None, "DIR/torn.key: the private key cannot be read"),
                (
                    "open.key",
                    "good.crt",
                    None,
                    f"DIR/open.key: {OPEN}",
                ),
                ("locked", "good.crt", None, "DIR/locked: the private key is encrypted; store it without a passphrase"),
                ("good.key", "junk", None, "DIR/junk: holds no certificate in PEM"),
                ("good.key", "torn.crt", None, "DIR/torn.crt: a certificate in it cannot be read"),
                ("good.key", "spoilt.crt", None, "DIR/spoilt.crt: a certificate in it cannot be read"),
                ("good.key", "good.crt", "empty", "DIR/empty: the file is empty"),
                (
                    "good.key",
                    other.certificate.name,
                    None,
                    "DIR/other.crt: the certificate does not fit the private key in DIR/good.key",
                ),
                (
                    old.key.name,
                    old.certificate.name,
                    None,
                    f"DIR/old.crt: the certificate of CN=localhost expired at {LAST:%Y-%m-%d}",
                ),
                (
                    "good.key",
                    "good.crt",
                    new.certificate.name,
                    f"DIR/new.crt: the certificate of CN=localhost is not valid before {NEXT:%Y-%m-%d} 00:00 UTC",
                ),
            )
        ],
        check,
    )


def test_the_first_end_counts(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    key, certificate = authority.pair(tmp_path / "own")
    chain = authority.pair(tmp_path / "chain", end=NOW + timedelta(days=7)).certificate
    assert read_identity(key, certificate, None, NOW).ends == END
    identity = read_identity(key, certificate, chain, NOW)
    assert identity.ends == NOW + timedelta(days=7)
    assert identity.pem.count(b"BEGIN CERTIFICATE") == 2


def test_authorities_are_a_file_or_a_directory(tmp_path: Path) -> None:
    first, second = Authority(tmp_path / "first"), Authority(tmp_path / "second")
    (tmp_path / "readme.txt").write_text("no certificate")
    assert read_authorities(first.file, NOW).pem.count("BEGIN") == 1
    assert read_authorities(tmp_path, NOW).pem.count("BEGIN") == 2
    second.file.write_bytes(b"")
    with pytest.raises(ConfigError, match=r"second.pem: the file is empty"):
        read_authorities(tmp_path, NOW)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ConfigError, match=r"empty: the directory has no files \*.pem"):
        read_authorities(empty, NOW)
