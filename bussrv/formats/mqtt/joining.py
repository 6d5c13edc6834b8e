"""CONNECT: who a client is, and whether it gets what it asks for."""

from __future__ import annotations

import secrets

from bussrv.formats.mqtt.codes import code_of
from bussrv.formats.mqtt.durable.sessions import MOST_INCOMING
from bussrv.plugin import Credentials, IBus, Password, Refused, Token, check_routing_id, quoted
from bussrv.wire.mqtt.packets import VERSION_5, Connack, Connect, PacketType, Properties
from bussrv.wire.mqtt.reasons import RETURN_CODES, UNAVAILABLE

DROPPED = "dropped"
"""The user property of CONNACK with the number of messages that were dropped while the client was away."""


MOST_ALIASES = 64
"""The topic aliases that a client may use."""


def client_id_of(asked: Connect) -> str:
    """The client id: a new one if the client asks for none.

    :raises Refused: ``bad-client-id``.
    """
    if not asked.client_id:
        if not asked.clean_start and asked.version != VERSION_5:
            raise Refused("bad-client-id", "a client without a client id begins a clean session")
        return f"mqtt-{secrets.token_hex(8)}"
    try:
        return check_routing_id(asked.client_id, "the client id")
    except Refused as refusal:
        raise Refused("bad-client-id", refusal.message) from None


def credentials_of(asked: Connect) -> Credentials | None:
    """The credentials in CONNECT: a user and a secret, or a token as the password alone.

    :raises Refused: ``bad-auth-method``: the client wants to prove in another way who it is.
    """
    if asked.properties.authentication_method is not None:
        method = quoted(asked.properties.authentication_method)
        raise Refused("bad-auth-method", f"clients say who they are by a user and a password, not by {method}")
    if asked.username:
        return Password(asked.username, asked.password or b"")
    return Token((asked.password or b"").decode("utf-8", "replace")) if asked.password else None


def check_will(asked: Connect, session_id: str, bus: IBus) -> None:
    """Check that a client may publish its will.

    :raises Refused: ``reserved-name`` or ``not-allowed``.
    """
    if asked.will is None:
        return
    if asked.will.topic in bus.registry.reserved:
        raise Refused("reserved-name", f"the topic {quoted(asked.will.topic)} belongs to the server")
    if not bus.may(session_id, "publish", asked.will.topic):
        raise Refused("not-allowed", f"the policy does not allow you to publish on {quoted(asked.will.topic)}")


def refused(reason: str, version: int) -> Connack:
    """The answer to a client that is refused."""
    code = code_of(reason, PacketType.CONNACK)
    return Connack(code if version == VERSION_5 else RETURN_CODES.get(code, UNAVAILABLE))


def expiry_of(asked: Connect, most: float) -> int:
    """How many seconds the session of a client is to outlive its connection; 0: it does not.

    A client of 3.1.1 that does not ask for a clean session says no number.

    :param most: the most that it gets.
    """
    if asked.version != VERSION_5:
        return 0 if asked.clean_start else int(most)
    return min(asked.properties.session_expiry_interval or 0, int(most))


def accepted(
    asked: Connect, client_id: str, expiry: int, max_packet: int, *, is_present: bool, dropped: int
) -> Connack:
    """The answer to a client that is let in.

    :param expiry: how many seconds its session outlives its connection.
    :param is_present: whether its session was there before.
    :param dropped: how many messages for it were dropped.
    """
    if asked.version != VERSION_5:
        return Connack(session_present=is_present)
    wanted = asked.properties.session_expiry_interval
    properties = Properties(
        assigned_client_identifier=None if asked.client_id else client_id,
        session_expiry_interval=expiry if wanted not in (None, expiry) else None,
        receive_maximum=MOST_INCOMING,
        maximum_packet_size=max_packet,
        topic_alias_maximum=MOST_ALIASES,
        user_properties=((DROPPED, str(dropped)),) if dropped else (),
    )
    return Connack(session_present=is_present, properties=properties)
