"""The topics and the configs by which Home Assistant finds services as sensors. Pure.

Source: Home Assistant, MQTT integration, "MQTT Discovery", and MQTT sensor. A config is a JSON object that is retained
on ``homeassistant/<component>/<node id>/<object id>/config``; an empty payload there removes the sensor. Ids have only
``a`` to ``z``, ``A`` to ``Z``, digits, ``_`` and ``-``.

An id of a sensor or a device stays the same as long as the server and the service, or the provider, are called the
same. So Home Assistant knows both again when the provider was away.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec import Struct

from bussrv.addresses import host_of
from bussrv.plugin import Session
from bussrv.version import VERSION

ONLINE, OFFLINE = b"online", b"offline"
"""What Home Assistant expects on the topic of the availability."""

PREFIX = "homeassistant"

MOST_OF_SERVER = 60
MOST_OF_SERVICE = 120
"""The most characters of an id that can be read. A topic has at most 255 bytes then, so that its name may be that of a
service."""

_UNFIT = re.compile(rb"[^A-Za-z0-9-]")
# Home Assistant refuses longer states.
_STATE = "{{ value[:255] }}"

_encode = msgspec.json.Encoder().encode


def readable_id(name: str, most: int) -> str:
    """An id for a name. Different names have different ids.

    Bytes that ids may not have, and ``_``, are ``_`` and two hexadecimal digits. An id that would be longer than
    ``most`` is ``__`` and a digest.
    """
    text = _UNFIT.sub(lambda found: b"_%02x" % found[0][0], name.encode()).decode()
    return text if len(text) <= most else f"__{sha256(name.encode()).hexdigest()}"


class Device(Struct, frozen=True):
    """A device of Home Assistant: what provides services.

    :ivar kind: what it is known by.
    :ivar name: by which name.
    :ivar model: how it is connected.
    """

    kind: Literal["user", "program", "host", "server"]
    name: str
    model: str


def device_of(session: Session) -> Device:
    """The device that a session is, by what stays the same when it connects again: its user, program or address.

    Publishers of Inbus are known by their address, because a whole network may be one user.
    """
    if session.protocol != "inbus":
        if session.actor is not None:
            return Device("user", session.actor, session.protocol)
        if session.name:
            return Device("program", session.name, session.protocol)
    return Device("host", host_of(session.peer), session.protocol)


class Sensors:
    """The sensors of one server.

    :ivar prefix: the beginning of all their topics.
    """

    def __init__(self, server_id: str) -> None:
        self._server_id = server_id
        self._node = f"bussrv_{readable_id(server_id, MOST_OF_SERVER)}"
        self.prefix = f"{PREFIX}/sensor/{self._node}/"

    @property
    def server(self) -> Device:
        """The device of services of the server itself, and of those whose providers are hidden."""
        return Device("server", self._server_id, "bussrv")

    def config_topic(self, service: str) -> str:
        """The topic of the config."""
        return f"{self._base(service)}/config"

    def availability_topic(self, service: str) -> str:
        """The topic of the availability."""
        return f"{self._base(service)}/availability"

    def _base(self, service: str) -> str:
        return self.prefix + readable_id(service, MOST_OF_SERVICE)

    def config(self, service: str, device: Device) -> bytes:
        """The config."""
        name = f"bussrv {device.name}" if device.kind == "server" else device.name
        fields: dict[str, Any] = {
            "name": service,
            "unique_id": f"{self._node}_service_{readable_id(service, MOST_OF_SERVICE)}",
            "state_topic": service,
            "value_template": _STATE,
            "availability_topic": self.availability_topic(service),
            "device": {
                "identifiers": [f"{self._node}_{device.kind}_{readable_id(device.name, MOST_OF_SERVICE)}"],
                "name": name,
                "model": device.model,
                "manufacturer": "bussrv",
            },
            "origin": {"name": "bussrv", "sw_version": VERSION},
        }
        return _encode(fields)
