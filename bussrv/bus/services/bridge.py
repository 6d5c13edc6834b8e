"""Across formats: what an object is to subscribers of a service, and a publication to the object network. Pure.

==================  ======================================  =================================================
from                to subscribers of service K             to members of the object network
==================  ======================================  =================================================
Inbus publish on K  the payload; its app-type to Inbus      ``type``, ``size``, ``sender``: K, ``app-type``,
                                                            ``id``, ``route``
object of a         the payload; ``app-type`` if it has     the object itself
provider of K       one, else 1
service of the      the payload                             ``type``, ``size``, ``sender``: K, ``id`` and
server (BUS)                                                ``route``, to subscribers of K alone
==================  ======================================  =================================================

Members get publications by their interest, and those on services that they are subscribed to.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Any

from bussrv.values import OCTET_STREAM, Publication
from bussrv.wire.objects import BusObject, encode_metadata

DEFAULT_APP_TYPE = 1

_NEVER = re.compile(r"(services|routing|clients?)/|error\Z")


def as_publication(obj: BusObject, provided: Set[str]) -> Publication | None:
    """The publication that ``obj`` is, if its sender provides the services ``provided``; ``None`` if it is none.

    An object is published on service K if all of these hold:

    1. Its sender provides K, and says ``sender: K``; or it provides only K and says no ``sender``.
    2. It has a payload or at least a type.
    3. It has no recipient (``to``), and is no event of the vocabularies, in any letter case.
    """
    head = obj.head
    if not provided or head.to is not None or not (head.size or head.type):
        return None
    if head.event is not None and _NEVER.match(head.event.lower()):
        return None
    if head.sender is None:
        if len(provided) > 1:
            return None
        (service,) = provided
    elif head.sender in provided:
        service = head.sender
    else:
        return None
    return Publication(service, head.type or OCTET_STREAM, obj.payload, _app_type(obj))


def _app_type(obj: BusObject) -> int:
    if b"app-type" not in obj.metadata:
        return DEFAULT_APP_TYPE
    value = obj.fields().get("app-type")
    return value if type(value) is int and abs(value) < 1 << 63 else DEFAULT_APP_TYPE


def as_metadata(publication: Publication, object_id: str, route: list[str], *, with_app_type: bool) -> bytes:
    """The metadata of the object that a publication is to members of the object network."""
    fields: dict[str, Any] = {
        "type": publication.content_type,
        "size": 0,
        "sender": publication.service,
        "id": object_id,
        "route": route,
    }
    if with_app_type:
        fields["app-type"] = publication.app_type
    return encode_metadata(fields, publication.payload)
