"""The packets as they are read and written. Source: section 3.

``id`` is a packet identifier, from 1 to 65535. ``code`` is a reason code of 5.0, see
:class:`bussrv.wire.mqtt.reasons.ReasonCode`; packets of 3.1.1 are read as if they had :data:`SUCCESS
<bussrv.wire.mqtt.reasons.ReasonCode.SUCCESS>` and no properties, except that CONNACK has a return code there.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

VERSION_3_1_1 = 4
"""The level of 3.1.1, as CONNECT states it."""

VERSION_5 = 5
"""The level of 5.0."""

VERSIONS = (VERSION_3_1_1, VERSION_5)


class PacketType(IntEnum):
    """Types of packets; and ``WILL``, which is part of CONNECT and has properties of its own."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15
    WILL = 16


class Properties(Struct, frozen=True, kw_only=True, gc=False, repr_omit_defaults=True, omit_defaults=True):
    """The properties of a packet or will; ``None``: it has no such property. Intervals are in seconds.

    Which packets may have which, and their types: :data:`bussrv.wire.mqtt.properties.TABLE`.
    """

    payload_format_indicator: int | None = None
    message_expiry_interval: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_identifiers: tuple[int, ...] = ()
    session_expiry_interval: int | None = None
    assigned_client_identifier: str | None = None
    server_keep_alive: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: int | None = None
    will_delay_interval: int | None = None
    request_response_information: int | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: int | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    maximum_packet_size: int | None = None
    wildcard_subscription_available: int | None = None
    subscription_identifiers_available: int | None = None
    shared_subscription_available: int | None = None


NO_PROPERTIES = Properties()
"""The properties of every packet without any. Readers use this very object."""


class Will(Struct, frozen=True):
    """A message that the server publishes if the session ends in another way than by a plain DISCONNECT."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class Connect(Struct, frozen=True):
    """``->`` The first packet of a client.

    An empty client id asks for one. In 3.1.1 that is allowed only with ``clean_start``, called clean session there; the
    server has to refuse it otherwise, with return code 2 ([MQTT-3.1.3-8] of 3.1.1).

    :ivar keep_alive: the most seconds between two packets of the client; 0: no limit.
    :ivar version: its level: 4 or 5.
    """

    client_id: str
    version: int = VERSION_5
    clean_start: bool = True
    keep_alive: int = 0
    will: Will | None = None
    username: str | None = None
    password: bytes | None = None
    properties: Properties = NO_PROPERTIES


class Connack(Struct, frozen=True):
    """``<-`` The answer to CONNECT.

    :ivar code: in 3.1.1 a return code, such as :data:`bussrv.wire.mqtt.reasons.BAD_LOGIN`.
    """

    code: int = 0
    session_present: bool = False
    properties: Properties = NO_PROPERTIES


class Publish(Struct, frozen=True, gc=False):
    """``->`` ``<-`` A message.

    :ivar topic: empty: the topic alias among the properties says it.
    :ivar id: 0 if ``qos`` is 0.
    :ivar dup: whether it may have been sent before.
    """

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    id: int = 0
    dup: bool = False
    properties: Properties = NO_PROPERTIES


class Puback(Struct, frozen=True, gc=False):
    """``->`` ``<-`` A message of QoS 1 has arrived."""

    id: int
    code: int = 0
    properties: Properties = NO_PROPERTIES


class Pubrec(Struct, frozen=True, gc=False):
    """``->`` ``<-`` A message of QoS 2 has arrived."""

    id: int
    code: int = 0
    properties: Properties = NO_PROPERTIES


class Pubrel(Struct, frozen=True, gc=False):
    """``->`` ``<-`` A message of QoS 2 will not be sent again."""

    id: int
    code: int = 0
    properties: Properties = NO_PROPERTIES


class Pubcomp(Struct, frozen=True, gc=False):
    """``->`` ``<-`` The id of a message of QoS 2 may be used again."""

    id: int
    code: int = 0
    properties: Properties = NO_PROPERTIES


class WantedFilter(Struct, frozen=True):
    """A filter that a client subscribes to. Of the options, 3.1.1 has only ``qos``.

    :ivar qos: the highest QoS of messages to the client.
    :ivar no_local: whether the client's own messages are left out.
    :ivar retain_as_published: whether messages keep their RETAIN flag.
    :ivar retain_handling: retained messages are sent: 0: at once; 1: if the subscription is new; 2: not.
    """

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(Struct, frozen=True):
    """``->`` A client subscribes. There is at least one filter."""

    id: int
    filters: tuple[WantedFilter, ...]
    properties: Properties = NO_PROPERTIES


class Suback(Struct, frozen=True):
    """``<-`` The results, in the order of the filters: the granted QoS, or a failure."""

    id: int
    codes: tuple[int, ...]
    properties: Properties = NO_PROPERTIES


class Unsubscribe(Struct, frozen=True):
    """``->`` A client unsubscribes. There is at least one filter."""

    id: int
    filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


class Unsuback(Struct, frozen=True):
    """``<-`` The results, in the order of the filters; none in 3.1.1."""

    id: int
    codes: tuple[int, ...] = ()
    properties: Properties = NO_PROPERTIES


class Pingreq(Struct, frozen=True):
    """``->`` A client gives a sign of life, and wants one."""


class Pingresp(Struct, frozen=True):
    """``<-`` The answer to it."""


class Disconnect(Struct, frozen=True):
    """``->`` ``<-`` The last packet. Servers send it in 5.0 only."""

    code: int = 0
    properties: Properties = NO_PROPERTIES


class Auth(Struct, frozen=True):
    """``->`` ``<-`` A step of a login in several steps. 5.0 only."""

    code: int = 0
    properties: Properties = NO_PROPERTIES


Acknowledgement: TypeAlias = Puback | Pubrec | Pubrel | Pubcomp

Packet: TypeAlias = (
    Connect
    | Connack
    | Publish
    | Acknowledgement
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
