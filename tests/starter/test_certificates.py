"""A renewed certificate takes the place of the old one, and of no other."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.starter.certificates import AUTHORITY, SERVER, make_certificates, names_of, renew_certificate
from tests.tables import each_row

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)
DAY = timedelta(days=1)
NAMES = ["hall.example", "192.168.7.1", "::1"]
MADE, OTHER = make_certificates(NAMES, NOW), make_certificates(NAMES, NOW)


def verifies(pem: bytes, at: datetime, name: str) -> bool:
    try:
        subject = x509.IPAddress(ip_address(name))
    except ValueError:
        subject = x509.DNSName(name)
    store = Store([x509.load_pem_x509_certificate(MADE.authority)])
    verifier = PolicyBuilder().store(store).time(at).build_server_verifier(subject)
    try:
        verifier.verify(x509.load_pem_x509_certificate(pem), [])
    except x509.verification.VerificationError:
        return False
    return True


@settings(max_examples=20)
@given(later=st.integers(0, 3648))
def test_it_is_as_good_as_the_old_one_and_lasts_longer(later: int) -> None:
    """But never longer than its authority."""
    now = NOW + later * DAY
    text, end = renew_certificate(MADE.server, MADE.authority, MADE.authority_key, now)
    old, new = map(x509.load_pem_x509_certificate, (MADE.server, text))
    assert new.public_key() == old.public_key()
    assert new.serial_number != old.serial_number
    assert (names_of(new), new.subject) == (names_of(old), old.subject)
    assert [each.oid for each in new.extensions] == [each.oid for each in old.extensions]
    assert end == min(now - DAY + SERVER, NOW - DAY + AUTHORITY)
    assert all(verifies(text, now, name) for name in NAMES)
    assert not verifies(text, end + DAY, NAMES[0])
    again, _ = renew_certificate(text, MADE.authority, MADE.authority_key, now, ["new.example"])
    assert verifies(again, now, "new.example")
    assert not verifies(again, now, "hall.example")


@each_row(
    ("given_", "said"),
    [
        ((OTHER.server, MADE.authority, MADE.authority_key, NOW), "another authority signed the certificate"),
        ((MADE.server, MADE.authority, OTHER.authority_key, NOW), "the key is not that of the authority"),
        ((MADE.server, MADE.authority, MADE.authority_key, NOW + AUTHORITY), "the authority expired at 2036-11-17"),
        ((b"", MADE.authority, MADE.authority_key, NOW), "the certificate is no certificate in PEM"),
        ((MADE.server, MADE.server_key, MADE.authority_key, NOW), "of the authority is no certificate in PEM"),
        ((MADE.server, MADE.authority, MADE.authority, NOW), "is no private key in PEM"),
        ((MADE.server, MADE.authority, MADE.authority_key, NOW, ["no name"]), "neither a host name nor an IP address"),
    ],
)
def test_what_is_refused(given_: tuple[bytes, bytes, bytes, datetime], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        renew_certificate(*given_)
