"""What can go wrong, and the stable codes that say so.

A *reason* is a short code that programs may compare: it stands in ``error`` objects, in journal records and in
counters, and never changes its meaning. ``REASONS`` is the one table of them, shared by every wire format.
"""

from __future__ import annotations

REASONS: dict[str, str] = {
    # What peers send: malformed, the connection is closed.
    "bad-utf8": "the metadata, or a name in it, is not UTF-8",
    "bad-json": "the metadata is not one well-formed JSON value",
    "not-an-object": "the metadata is JSON, but not a JSON object",
    "bad-size": "size is not a non-negative integer",
    "metadata-too-large": "the metadata is larger than the limit",
    "payload-too-large": "the payload is larger than the limit",
    "nesting-too-deep": "the metadata nests deeper than the limit",
    "packet-too-large": "an SPP packet is larger than the limit",
    "string-overruns-packet": "an SPP STRING says it is longer than the packet that holds it",
    "packet-too-short": "an SPP packet ends before its fields do",
    # What peers send: well-framed, but wrong; the connection lives on.
    "bad-attribute": "a standard attribute has a value of the wrong kind",
    "bad-subscription": "the attributes of a subscription are wrong",
    "bad-service-name": "a service name is empty, longer than 255 bytes, or holds control characters",
    "missing-type": "a payload came without a type, and the server is strict",
    "reserved-event": "the event is reserved for servers",
    # Inbus datagrams: dropped, nothing is answered.
    "bad-element": "an element of an Inbus datagram is missing or of the wrong kind",
    "bad-version": "an Inbus version other than 1 or 2",
    "bad-base64": "the payload of an Inbus version 2 datagram is not base64",
    "reserved-opcode": "an Inbus opcode that is reserved",
    "reserved-app-key": "an Inbus app-key that is reserved",
    "reserved-app-type": "an Inbus publication with the reserved app-type 0; delivered and counted",
    "foreign-address": "an Inbus subscriber address that is neither the sender's nor allowed",
    "datagram-too-large": "a payload that no datagram can carry",
    "own-address": "an Inbus subscriber address that is the server's own",
    "inbus-rate": "more datagrams a second to one Inbus subscriber address than the limit",
    "inbus-unreachable": "nobody listens at the address of an Inbus subscriber; its machine said so",
    "inbus-send-failed": "a datagram that the system did not take, or that was lost on its way",
    "publisher-waiting": "a publisher sent more than may wait for its service to be registered",
    # Links between servers.
    "duplicate-link": "there is a link between these two servers already, or a server of that name",
    "link-to-itself": "both ends of a link have the same routing id",
    "link-not-allowed": "servers may not link from that address",
    "link-refused": "the other server refused the link",
    "link-full": "a linked server told of more sessions and services than the limit",
    # What the registry refuses.
    "no-such-service": "nobody provides a service of that name",
    "no-such-subscription": "there is no such subscription",
    "not-registered": "the session does not provide that service",
    "reserved-name": "names that begin with bus/ belong to the server",
    "session-closed": "the session is closed",
    "too-many-sessions": "there are as many sessions as the limit allows, in all or from one address",
    "too-many-connects": "there were more new sessions from one address in a second than the limit allows",
    "too-many-services": "the session provides as many services as the limit allows",
    "too-many-subscriptions": "the session is subscribed to as many services as the limit allows",
    "journal-unavailable": "the journal cannot be written at the moment",
    "not-authenticated": "the client has not said who it is, which the wire format asks for",
    "bad-credentials": "there is no such user, or the secret is not the user's",
    # Why a session ended; one that sent something malformed ended for the code that says what.
    "client-closed": "the client closed the connection",
    "connection-lost": "the connection broke",
    "subscribe-timeout": "the client did not subscribe in time",
    "slow-consumer": "the client read too slowly: its outbound limit was reached",
    "link-lost": "the link over which the session of another server was reached is lost",
    "unreachable": "the session of another server left, or cannot be reached any more",
    "authentication-failed": "the client failed to say who it is too often",
    "lease-expired": "nothing was heard within the lease",
    "unsubscribed": "the last subscription of an Inbus subscriber went",
    "server-stopped": "the server was stopped",
    "address-forgotten": "the address of the session is a pseudonym whose key was destroyed",
    "retention-age": "the segment of the journal is older than it is to be kept",
    "retention-size": "the journal is larger than it is to be kept",
    "server-crashed": "the server ended without closing the session; found when it came back",
    "format-off": "the wire format that the session used is switched off",
    "internal-error": "the server failed to serve the session; its log says more",
    "replaced": "another one took its place",
}


class BussrvError(Exception):
    """The parent of every error that bussrv raises itself."""


class RemoteProtocolError(BussrvError):
    """The peer broke the wire format: after this the bytes cannot be trusted any more.

    :param reason: a code of ``REASONS``.
    :param message: one sentence for a person.
    :param position: where, in bytes from the start of the message, when that is known.
    """

    def __init__(self, reason: str, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.position = position


class Refused(BussrvError):
    """A change that the registry does not make, and why.

    :param reason: a code of ``REASONS``.
    :param message: one sentence for a person.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class OverLimit(Refused):
    """What a client asked for is more than a limit allows.

    :param limit: the option that sets the limit, without its dashes.
    :param value: what it is set to.
    """

    def __init__(self, reason: str, message: str, limit: str, value: int) -> None:
        super().__init__(reason, message)
        self.limit = limit
        self.value = value


class JournalUnavailable(Refused):
    """The journal could not be written, so the change was not made."""

    def __init__(self, message: str) -> None:
        super().__init__("journal-unavailable", message)


class JournalError(BussrvError):
    """A journal cannot be opened or read: locked, unwritable or damaged. The message names the place."""


class ConfigError(BussrvError):
    """An option or the configuration file says something that cannot be done. The message names it."""
