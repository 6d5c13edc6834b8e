"""Users from TLS client certificates that were verified. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bussrv.policy.logins.users import check_user

FIELDS = ("cn", "dns", "email", "uri")
"""The parts of a certificate that may have the name of the user."""

_ALTERNATIVES = {"dns": "DNS", "email": "email", "uri": "URI"}


def user_of(certificate: Mapping[str, Any], field: str) -> str | None:
    """The user that a certificate names.

    :param certificate: the certificate, as :meth:`ssl.SSLObject.getpeercert` returns it.
    :param field: one of :data:`FIELDS`.
    :returns: ``None``: the field is not there, is there more than once, or cannot be the name of a user.
    """
    if field == "cn":
        subject = certificate.get("subject", ())
        found = [value for part in subject for name, value in part if name == "commonName"]
    else:
        kind = _ALTERNATIVES[field]
        found = [value for name, value in certificate.get("subjectAltName", ()) if name == kind]
    if len(found) != 1:
        return None
    try:
        return check_user(found[0])
    except ValueError:
        return None
