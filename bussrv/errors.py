"""Errors, their stable codes, and the names of all counters.

A *reason* is a short code that programs may compare: it stands in ``error`` objects, in journal records and in
counters, and never changes its meaning. ``REASONS`` is the one table of them, shared by every wire format. ``COUNTERS``
has the names of counters that are no reasons.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

TOO_MANY_LOGINS: Final = "too-many-logins"
"""The reason that tells a client to try again with the same credentials: they were not checked."""

JOURNAL_UNAVAILABLE: Final = "journal-unavailable"
"""The reason that tells a client that the server's disk is in trouble: later it may take the same."""

SPOOL_UNAVAILABLE: Final = "spool-unavailable"
"""The reason that tells a client that something could not be kept on the disk: later it may be."""

REASONS: dict[str, str] = {
    # Malformed input: the connection is closed.
    "bad-utf8": "the metadata, or a name in it, is not UTF-8",
    "bad-json": "the metadata is not one well-formed JSON value",
    "not-an-object": "the metadata is JSON, but not a JSON object",
    "bad-size": "size is not a non-negative integer",
    "metadata-too-large": "the metadata is larger than the limit",
    "payload-too-large": "the payload is larger than the limit",
    "nesting-too-deep": "the metadata nests deeper than the limit",
    "packet-too-large": "a packet of SPP or MQTT, or a message of a plugin's format, is larger than the limit",
    "string-overruns-packet": "an SPP STRING says it is longer than the packet that holds it",
    "packet-too-short": "a packet of SPP or MQTT ends before its fields do",
    "malformed-packet": "an MQTT packet, or a message of a plugin's format, is not as its format has it",
    "protocol-error": "an MQTT packet says what its version of MQTT does not allow there, or comes at a wrong time",
    "unsupported-version": "a client speaks a version of MQTT that the server does not",
    "bad-topic-alias": "a topic alias of MQTT is 0, or greater than the server allows",
    "too-many-parts": "an MQTT packet has more properties or topic filters than the limit",
    "bad-upgrade": "a client of the WebSocket port did not ask for a WebSocket",
    "bad-frame": "a frame is not as WebSocket has it",
    "bad-message": "a WebSocket message is not one whole object",
    "not-binary": "a WebSocket message of a client of MQTT is text",
    "bad-proxy-header": "a proxy did not say in the PROXY protocol whose connection it is; only the log tells",
    # Well-framed but wrong input: the connection stays open.
    "bad-attribute": "a standard attribute has a value of the wrong kind",
    "bad-subscription": "the attributes of a subscription are wrong",
    "bad-service-name": "a service name is empty, too long, or holds a character or a level that names may not have",
    "missing-type": "a payload came without a type, and the server is strict",
    "reserved-event": "the event is reserved for servers",
    # Inbus datagrams: dropped, nothing is answered.
    "bad-element": "an element of an Inbus datagram is missing or of the wrong kind",
    "bad-client-id": "an MQTT client id is empty, too long, or holds a character that it may not have",
    "client-id-taken": "another user has a session with that MQTT client id",
    "bad-auth-method": "an MQTT client wants to prove who it is in another way than by a password",
    "bad-version": "an Inbus version other than 1 or 2",
    "bad-base64": "the payload of an Inbus version 2 datagram is not base64",
    "reserved-opcode": "an Inbus opcode that is reserved",
    "reserved-app-key": "an Inbus app-key that is reserved",
    "reserved-app-type": "an Inbus publication with the reserved app-type 0; delivered and counted",
    "foreign-address": "an Inbus subscriber address that is neither the sender's nor allowed",
    "datagram-too-large": "a payload that no datagram can carry",
    "own-address": "an Inbus subscriber address that is the server's own",
    "inbus-rate": "more datagrams a second to one Inbus subscriber address than the limit",
    "inbus-host-rate": "more datagrams a second to all Inbus subscriber addresses of one host than the limit",
    "inbus-echo": "an Inbus subscriber sent back the same publication more often than the limit; dropped",
    "inbus-unreachable": "nobody listens at the address of an Inbus subscriber; its machine said so",
    "inbus-send-failed": "a datagram that the system did not take, or that was lost on its way",
    "journal-budget": "a datagram asked for a change that the journal's budget has no room for",
    "publisher-waiting": "a publisher sent more than may wait for its service to be registered",
    # Links between servers.
    "duplicate-link": "there is a link between these two servers already, or a server of that name",
    "link-to-itself": "both ends of a link have the same routing id",
    "link-not-allowed": "servers may not link from that address",
    "link-refused": "the other server refused the link",
    "routing-id-taken": "a session has the routing id of the server that wants to link",
    "too-many-links": "there are as many links as the limit allows",
    "too-many-remote-sessions": "linked servers together told of more sessions than the limit",
    "link-full": "a linked server told of more sessions and services than the limit",
    "link-interest-full": "a linked server wants publications on more names than the limit, so it is given everything",
    "objects-lost": "objects of another server were lost on their way here",
    "objects-expired": "objects of another server were not kept long enough to be fetched later",
    # Refusals of the registry.
    "no-such-service": "nobody provides a service of that name",
    "provider-gone": "the provider that was given a request went, or gave up the service, before it answered",
    "reply-timeout": "nobody answered the request of an MQTT client in time",
    "correlation-too-long": "the Response Topic and Correlation Data of a request are longer than the server keeps",
    "no-such-request": "a reply or an error of a client to no open request that this client was given; dropped",
    "too-many-requests": "the client has as many open requests as the limit allows",
    "too-many-addressees": "an object was addressed to more routing ids than the limit allows",
    "no-such-subscription": "there is no such subscription",
    "not-registered": "the session does not provide that service",
    "reserved-name": "names that read as bus/… or $bus/…, or as a service or topic of the server itself, belong to it",
    "session-closed": "the session is closed",
    "too-many-durable-sessions": "there are as many durable sessions as the limit allows, in all or from one address",
    "too-many-sessions": "there are as many sessions as the limit allows, in all or from one address",
    "too-many-connects": "there were more new sessions from one address in a second than the limit allows",
    "too-many-handshakes": "there are as many TLS handshakes at one port as the limit allows",
    "handshake-timeout": "the TLS handshake was not done in time",
    "too-many-services": "the session provides as many services as the limit allows",
    "too-many-services-in-all": "all sessions together provide as many services as the limit allows",
    "too-many-subscriptions": "the session is subscribed to as many services as the limit allows",
    JOURNAL_UNAVAILABLE: "the journal cannot be written at the moment",
    SPOOL_UNAVAILABLE: "the spool cannot be written or read at the moment",
    "spool-full": "something could not be kept for a session, because a limit of the spool is reached",
    "no-such-owner": "nothing is kept for the session in the spool any more: it is forgotten",
    "not-authenticated": "the client has not proved who it is, and this server does not serve it before that",
    "bad-credentials": "there is no such user, or the secret or the token is wrong",
    TOO_MANY_LOGINS: "too many logins wait for their secrets to be checked, so this one was not; try again",
    "token-expired": "the token was right, but has expired; the client is told bad-credentials",
    "actor-fixed": "the session has proved to be another user already",
    "bad-certificate": "the client has no TLS certificate, or one that is not accepted",
    "origin-not-allowed": "web pages of that origin may not connect",
    "not-encrypted": "credentials of a linked server would cross, or crossed, the network in the clear",
    "not-allowed": "no rule of the policy allows that to the user of the session",
    "permission-withdrawn": "the policy was read again, and does not allow that to the user of the session any more",
    "permission-changed": "the policy was read again, and allows a linked server to tell more, so it has to link again",
    # Ends of sessions. A session that sent malformed input ends with the code of that error.
    "client-closed": "the client closed the connection",
    "connection-lost": "the connection broke",
    "subscribe-timeout": "the client did not subscribe, or connect by MQTT, in time",
    "ping-timeout": "a WebSocket client gave no sign of life in time",
    "keep-alive-timeout": "an MQTT client was silent for longer than the keep-alive that it stated",
    "session-taken-over": "another connection has the client id of this MQTT session from now on",
    "session-replaced": "the client began another MQTT session in place of this durable one",
    "session-expired": "the client of a durable MQTT session was away for too long",
    "joined-session": "the connection belongs to a durable MQTT session of its client from now on",
    "slow-consumer": "the client read too slowly: its outbound limit was reached",
    "outbound-full": "too many bytes waited for all clients together, and this one had not read for longest",
    "inbound-full": "too many bytes of all clients were unfinished, and this one began its own first",
    "link-lost": "the link over which the session of another server was reached is lost",
    "unreachable": "the session of another server left, or cannot be reached any more",
    "too-many-silent": "too many SPP clients had not subscribed, and this one had waited longest",
    "authentication-failed": "the client failed to prove who it is too often",
    "user-withdrawn": "the user of the session was removed, or what proved it was replaced or has expired",
    "lease-expired": "nothing was heard within the lease",
    "unsubscribed": "an Inbus subscriber has no subscription left, or an MQTT client answers no more requests",
    "closed-by-operator": "an operator closed the session, or took the subscription or service from it",
    "server-stopped": "the server was stopped",
    "address-forgotten": "the address of the session is a pseudonym whose key was destroyed",
    "retention-age": "the segment of the journal is older than it is to be kept",
    "retention-size": "the journal is larger than it is to be kept",
    "server-crashed": "the server ended without closing the session; found when it came back",
    "format-off": "the wire format that the session used is switched off",
    "internal-error": "the server failed to serve the session; its log says more",
    "replaced": "another one took its place",
}
"""The meaning of each reason, by its code: the table that all wire formats share."""

COUNTERS: dict[str, str] = {
    # Refused because of a limit: the option that sets it. The reason has no counter of its own.
    "max-sessions": "connections refused: there were too many sessions",
    "max-sessions-per-address": "connections refused: there were too many sessions from one address",
    "max-connects": "connections refused: there were too many new sessions from one address in a second",
    "client-script": "requests for `/client.js`, the client for web pages, that were answered",
    "no-descriptors": "connections closed at once: the system lets the server open too few files",
    "max-handshakes": "connections closed: there were too many TLS handshakes at one port",
    "tls-failed": "connections closed: the client did not speak TLS, or a certificate was not accepted",
    "inbus-max-sessions": "datagrams dropped: there were too many sessions of Inbus",
    "inbus-max-sessions-per-address": "datagrams dropped: there were too many sessions of Inbus with one address",
    "inbus-lost": "datagrams lost: they came faster than they were read, and the receive buffer was full (Linux)",
    "spp-max-silent": "SPP clients closed: too many had not subscribed",
    "spp-max-silent-per-address": "SPP clients closed: too many from one address had not subscribed",
    "max-links": "links refused: there were too many",
    "max-services": "services refused: the session provided too many",
    "max-services-total": "services refused: all sessions together provided too many",
    "max-subscriptions": "subscriptions refused: the session had too many",
    "max-requests": "requests refused: there were too many open requests",
    "max-requests-per-asker": "requests refused: the client had too many open requests",
    "max-patterns": "subscriptions refused: they had too many content types or rules, or named too many services",
    "max-wildcard-characters": "subscriptions refused: their content types with wildcards inside were too long",
    "max-addressees": "objects refused: they were addressed to too many routing ids",
    "max-routing-ids": "subscriptions refused: they had too many further routing ids",
    "link-lost-objects": "objects of other servers that were lost on their way here, as linked servers say",
    # Incidents, and how others are told of them.
    "incident-not-kept": "addresses, users, ids, services and incidents that were dropped from bounded tables",
    "incident-webhook-sent": "incidents that the URL of `--incident-webhook` has taken",
    "incident-webhook-failed": "attempts to tell that URL of an incident that failed",
    "incident-webhook-dropped": "incidents that it was not told of, because too many waited",
    "incident-command-sent": "runs of the command of `--on-incident` that ended with 0",
    "incident-command-failed": "runs of that command that failed, or took too long",
    "incident-command-dropped": "incidents that it was not run for, because too many waited",
    # The admin interface, by the option that sets the limit.
    "admin-max-connections": "connections to the admin interface closed: there were too many",
    "admin-max-rate": "requests to the admin interface refused: there were too many of one user or address",
    "admin-max-head": "requests to the admin interface refused: their heads were too large",
    "admin-max-body": "requests to the admin interface refused: their bodies were too large",
    "admin-request-timeout": "requests to the admin interface refused: they did not arrive in time",
    "admin-read-timeout": "registries at a moment refused: reading the journal took too long",
    "admin-max-streams": "streams of events refused: their user, or their address, had too many",
    "admin-max-streams-total": "streams of events that were ended or refused, because all users had too many",
    "admin-max-tap-rate": "objects that taps skipped: all of them together show no more in a second",
    "admin-max-waiting": "streams of events ended: the client read too slowly",
    # The port of a witness, by the option that sets the limit.
    "witness-max-connections": "connections to the port of a witness refused: there were too many",
    "witness-max-connections-per-address": "connections to the port of a witness refused: one address had too many",
    "witness-max-body": "requests to a witness refused: their bodies were too large",
    "witness-max-waiting": "checkpoints not cosigned: too many waited for that",
    "witness-idle-timeout": "connections to the port of a witness closed: nothing came for too long",
    "witness-connection-timeout": "connections to the port of a witness closed: they were open for too long",
    # The spool.
    "max-spool-entries": "entries not kept: the session had too many in the spool",
    "max-spool": "entries not kept: the session had too many bytes in the spool",
    "max-spool-per-address": "entries not kept: the sessions of one address had too many bytes in the spool",
    "max-spool-total": "entries not kept: all sessions together had too many bytes in the spool",
    "spool-dropped": "entries dropped from the spool to make room for newer ones of the same session",
    "spool-expired": "entries removed from the spool: their time was over",
    "spool-damaged": "times that the spool was damaged or removed, and another one was begun",
    # Slices.
    "slice-over": "a session, or a long answer, was served on later: it took longer than a slice",
    # The object network.
    "not-subscribed": "objects dropped: the client that sent them had not subscribed",
    "no-such-recipient": "objects and replies dropped: nobody has the routing id that they are addressed to",
    "routing-id-not-granted": "subscriptions not given every routing id they asked for: taken, or held for another",
    "receive-none": "answers not sent: the client asked to receive nothing",
    "last-value-evicted": "last values forgotten, to make room for others",
    "last-value-too-large": "last values not kept: they were too large",
    # The journal.
    "journal-paused": "changes that waited because a session, its address or all had used up the journal's budget",
    "journal-changed": "times that another program changed the journal; changes were refused until a new segment began",
    # MQTT.
    "mqtt-unfit-topic": "messages not sent: the name of the service cannot be a topic",
    "mqtt-max-unacknowledged": "times that messages began to wait for acknowledgements of those before them",
    "mqtt-too-large": "messages not sent: they were larger than the client takes",
    "mqtt-unheard": "requests refused, and answers dropped: the client is not subscribed to their response topic",
    "retained-full": "publications not retained: there was no room",
    "retained-address-full": "publications not retained: one address had no room left for its own",
    "discovery-full": "services not announced to Home Assistant: there are as many as can be",
    # SPP.
    "spp-ignored": "packets ignored: their msgtype is reserved or unknown",
    "spp-coalesced": "packets not sent: a newer state of the same service took their place",
    # Links between servers.
    "link-objects": "objects that linked servers sent",
    "link-duplicate": "objects of linked servers dropped: they had arrived before",
    "link-loop": "objects of linked servers dropped: they had been at this server before",
    "link-too-far": "objects of linked servers dropped: they had passed too many servers",
}


class BussrvError(Exception):
    """The parent of every error that bussrv raises itself."""


class RemoteProtocolError(BussrvError):
    """The peer broke the wire format: later bytes cannot be read.

    :param reason: a code of ``REASONS``: ``malformed-packet`` if none says more.
    :param message: one sentence for a person.
    :param position: the place of the fault, in bytes from the start of the message; ``None``: it is not known.
    """

    def __init__(self, reason: str, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.position = position


class Refused(BussrvError):
    """A change that the registry refuses, or something else that a wire format refuses.

    :param reason: a code of ``REASONS``. What a wire format raises and catches itself may have a code of its own, as
        long as no session ends with it.
    :param message: one sentence for a person.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class OverLimit(Refused):
    """A client asked for more than a limit allows.

    :param limit: the option that sets the limit, without its dashes.
    :param value: the value of the option.
    """

    def __init__(self, reason: str, message: str, limit: str, value: int) -> None:
        super().__init__(reason, message)
        self.limit = limit
        self.value = value


class NotAllowed(Refused):
    """An action that no rule of the policy allows to the session."""

    def __init__(self, message: str) -> None:
        super().__init__("not-allowed", message)


class JournalUnavailable(Refused):
    """The journal could not be written, so the change was not made."""

    def __init__(self, message: str) -> None:
        super().__init__(JOURNAL_UNAVAILABLE, message)


class SpoolUnavailable(Refused):
    """The spool could not be written or read, so the change was not made."""

    def __init__(self, message: str) -> None:
        super().__init__(SPOOL_UNAVAILABLE, message)


class SpoolError(BussrvError):
    """A spool cannot be opened, or somebody cannot be forgotten in it. The message names the place."""


class JournalError(BussrvError):
    """A journal cannot be opened or read: locked, unwritable or damaged. The message names the place."""


class BadValue(BussrvError):
    """An option cannot have this value. The message says why; the place that the value came from is added to it."""


class ConfigError(BussrvError):
    """Options, or the configuration file, say something that cannot be done.

    :param sentences: each names its place and what is wrong there; one where a wire format refuses its endpoint.
    """

    def __init__(self, *sentences: str) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = sentences


@contextmanager
def os_errors_as(kind: type[ConfigError | JournalError], what: str) -> Iterator[None]:
    """Make errors of the system, such as a missing file, errors of bussrv.

    :param what: the beginning of the sentence, such as ``cannot read FILE``.
    """
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {error.strerror or error}") from error


@contextmanager
def named(place: str) -> Iterator[None]:
    """Begin the errors of options and journals with the place of their cause."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error
    except JournalError as error:
        raise JournalError(f"{place}: {error}") from error
