"""Limits and policies that an operator may set. Sizes in bytes, times in seconds.

:class:`Settings` has the default of each, with its row in the table of options, whose kinds are those of
:mod:`bussrv.options`. The code that enforces a limit knows it by its option or its attribute, and counts what it
refuses by a name of :data:`bussrv.errors.REASONS` or :data:`bussrv.errors.COUNTERS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from bussrv.options import (
    FLAG,
    MAX_BUFFER,
    NETWORKS,
    ORIGINS,
    SECONDS_OR_NONE,
    SERVER_IDS,
    WEB_ORIGINS,
    Choice,
    Network,
    OptionGroup,
    SlowPolicy,
    Whole,
    rows,
)

Announce = Literal["members", "servers", "off"]
SlowSpp = Literal["disconnect", "coalesce"]
MqttRetain = Literal["memory", "durable"]
Discovery = Literal["off", "homeassistant"]

MAX_BACKLOG = (1 << 31) - 1

ADMIN = OptionGroup("admin_limits", "Limits of the admin interface")
WITNESS = OptionGroup("witness_limits", "Limits of the port of a witness")
SESSIONS = OptionGroup("sessions", "Sessions and connections")
OBJECTS = OptionGroup("objects", "Objects, services and subscriptions")
MEMORY = OptionGroup("memory", "Memory for clients")
SPOOL = OptionGroup("spool", "The spool")
REQUESTS = OptionGroup("requests", "Requests")
LINKS = OptionGroup("links", "Linked servers")
INBUS = OptionGroup("inbus", "Inbus")
SPP = OptionGroup("spp", "SPP")
WEBSOCKET = OptionGroup("websocket", "WebSocket")
MQTT = OptionGroup("mqtt", "MQTT")
REFUSALS = OptionGroup("refusals", "Records that strangers cause", reloadable=False)
BUDGET = OptionGroup("budget", "The budget of the journal", reloadable=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Limits and policies, each declared as a row of the table of options.

    Each is an attribute that is called like its option, with ``_`` for ``-``: ``--max-payload`` is ``max_payload``. All
    parts of a server hold the same object. Only :meth:`reload` changes it.
    """

    admin_scrape_allow: tuple[Network | Literal["unix"], ...] = ADMIN.option(
        ORIGINS,
        (),
        "A network, such as 127.0.0.1/32, or an address whose programs may read `/metrics` and `/readyz` without proof "
        "of who they are, or `unix` for UNIX sockets. Otherwise the policy decides, as for the service "
        "`bus/statistics`. After a proxy all clients have its address. May be repeated.",
        example=["127.0.0.1/32"],
    )
    admin_max_connections: int = ADMIN.count(
        100,
        "Connections to the admin interface at the same time. For a further one, the one that has been idle for "
        "longest is closed; if none is idle, the new one is. A tenth is a reserve for users who may write: of others, "
        "connections that are served are closed for new ones, too, as long as they have part of it.",
    )
    admin_max_rate: int = ADMIN.count(
        100,
        "Requests a second to the admin interface from one user, or without a login from one address (IPv6: from one "
        "/64 network), after a burst of 2 seconds' worth. Further ones are refused, `too-many-requests`. Requests that "
        "are refused for another reason, such as a wrong password, are counted apart, by address: beyond as many their "
        "connections are closed.",
    )
    admin_max_head: int = ADMIN.size(
        16 << 10,
        "Bytes of the first line and the headers of a request to the admin interface. A longer one is refused, "
        "`head-too-large`, and the connection closed.",
    )
    admin_max_body: int = ADMIN.size(
        64 << 10,
        "Bytes of the body of a request to the admin interface. A longer one is refused, `body-too-large`, and the "
        "connection closed.",
    )
    admin_request_timeout: float = ADMIN.time(
        10.0,
        "Seconds in which a request to the admin interface has to arrive, from its first byte on. A later one is "
        "refused, `request-timeout`, and the connection closed.",
    )
    admin_idle_timeout: float = ADMIN.time(
        60.0,
        "Seconds after an answer of the admin interface in which the client has to take it and to send another "
        "request. Then the connection is closed.",
    )
    admin_read_timeout: float = ADMIN.time(
        2.0,
        "Seconds for which the admin interface reads the journal for one page of a history; the next page goes on "
        "there. For the registry at a moment five times as long; beyond it the request is refused, "
        "`admin-read-timeout`.",
    )
    admin_max_streams: int = ADMIN.count(
        20,
        "Streams of events of the admin interface at the same time for one user, or without a login for one address, "
        "such as open dashboards have. Further ones are refused, `too-many-streams`.",
    )
    admin_max_streams_total: int = ADMIN.count(
        60,
        "Streams of events of the admin interface at the same time for all users. For a further one, the user with "
        "most streams loses the oldest one, first of all those who may not write; a user who has most is refused, "
        "`too-many-streams`.",
    )
    admin_max_tap_rate: int = ADMIN.count(
        1_000,
        "Objects a second that all taps together show; each has an equal share. Further ones are skipped, and counted "
        "as `admin-max-tap-rate`.",
    )
    admin_max_waiting: int = ADMIN.size(
        1 << 20,
        "Bytes of events that may wait for the client of one stream of the admin interface. A client that reads more "
        "slowly is disconnected; it may continue where it was.",
    )
    witness_max_connections: int = WITNESS.count(
        200, "Connections to the port of a witness at the same time. Further ones are closed at once."
    )
    witness_max_connections_per_address: int = WITNESS.count(
        20, "The same from one address (IPv6: from one /64 network). Further ones are closed at once."
    )
    witness_max_body: int = WITNESS.size(
        256 << 10,
        "Bytes of the body of a request to that port: 63 hashes, and a checkpoint with many signatures. A longer one "
        "is answered with status 413, and the connection closed.",
    )
    witness_max_waiting: int = WITNESS.count(
        50, "Checkpoints that wait for a cosignature at the same time. Further ones are answered with status 503."
    )
    witness_idle_timeout: float = WITNESS.time(
        10.0, "Seconds after which a connection to that port is closed over which nothing comes."
    )
    witness_connection_timeout: float = WITNESS.time(
        60.0, "Seconds after which a connection to that port is closed, whatever comes over it."
    )
    max_sessions: int = SESSIONS.count(
        50_000,
        "Sessions at the same time; those of Inbus are not counted. Further clients are refused, `too-many-sessions`. "
        "The server lowers this limit if the system lets it open too few files (`ulimit -n`).",
    )
    max_sessions_per_address: int = SESSIONS.count(
        2_000,
        "Sessions at the same time from one address; those of Inbus are not counted. Further clients from that address "
        "are refused, `too-many-sessions`.",
    )
    max_connects: int = SESSIONS.count(
        500,
        "New sessions a second from one address, after the burst that `--max-connects-burst` allows. Further clients "
        "from that address are refused, `too-many-connects`.",
    )
    max_connects_burst: int = SESSIONS.count(
        2_000,
        "New sessions that one address may open at once. After that `--max-connects` limits their rate; clients beyond "
        "the rate are refused, `too-many-connects`.",
    )
    trusted_network: tuple[Network, ...] = SESSIONS.option(
        NETWORKS,
        (),
        "A network, such as 192.168.7.0/24. The limits for one address do not hold for its clients. May be repeated.",
    )
    subscribe_timeout: float = SESSIONS.time(
        30.0,
        "Seconds that a client of the object network may take to subscribe. Later it is disconnected, "
        "`subscribe-timeout`. Time in which the client waits for the server, such as for a slow disk, does not count.",
    )
    handshake_timeout: float = SESSIONS.time(
        10.0,
        "Seconds that a client may take for the TLS handshake. Later it is disconnected, `handshake-timeout`. Time in "
        "which the client waits for the server does not count.",
    )
    max_handshakes: int = SESSIONS.count(
        2_000,
        "TLS handshakes at the same time at one port. Beyond it one client of the address with most of them is "
        "disconnected, `too-many-handshakes`: the one that began first.",
    )
    max_waiting_logins: int = SESSIONS.count(
        10_000,
        "Logins of all wire formats that wait for their secrets to be checked. Beyond it the latest login of the "
        "address with most is refused unchecked, `too-many-logins`.",
    )
    max_waiting_secrets: int = SESSIONS.count(
        16,
        "Different secrets of one user at one address that wait to be checked. Beyond it the logins with one of them, "
        "those that were wrong before first, are refused unchecked, `too-many-logins`.",
    )
    max_secret_wait: float = SESSIONS.time(
        3.0,
        "Seconds that a login waits while other secrets of its user wait at its address. Later it is refused "
        "unchecked, `too-many-logins`: its client may try again, and secrets that come again are checked earlier.",
    )
    close_timeout: float = SESSIONS.time(
        10.0,
        "Seconds that a client may take to read what is queued for it while its connection closes. Later the "
        "connection is cut.",
    )
    drain_seconds: float = SESSIONS.option(
        SECONDS_OR_NONE,
        5.0,
        "Seconds over which sessions end, one after the other, when SIGTERM stops the server. Clients of the object "
        "network are told before, by `abboe/close/notify`. 0: all sessions end at once.",
    )
    slice_seconds: float = SESSIONS.time(
        0.002,
        "Seconds that one session is served before others get their turn. A session that needs longer is served on "
        "after the others, and counted as `slice-over`. A connection is read 120 KiB at a time.",
        reloadable=False,
    )
    listen_backlog: int = SESSIONS.option(
        Whole(most=MAX_BACKLOG),
        1024,
        "Connections that may wait to be accepted at one port. The system refuses further ones, and may allow fewer "
        "(`net.core.somaxconn`). `backlog=` in an endpoint description overrides this option.",
        reloadable=False,
    )
    max_metadata: int = OBJECTS.size(
        64 << 10,
        "Bytes of an object's metadata. A client that sends more gets the error `metadata-too-large` and is "
        "disconnected.",
        reloadable=False,
    )
    max_payload: int = OBJECTS.size(
        16 << 20,
        "Bytes of an object's payload. A client that sends more gets the error `payload-too-large` and is "
        "disconnected. Wire formats of plugins take it as the limit of their messages.",
        reloadable=False,
    )
    max_nesting: int = OBJECTS.count(
        64,
        "Levels that metadata may nest. A client that sends more gets the error `nesting-too-deep` and is "
        "disconnected.",
        reloadable=False,
    )
    strict: bool = OBJECTS.option(
        FLAG,
        False,
        "Refuse payloads without a type, `missing-type`, instead of routing them.",
    )
    announce: Announce = OBJECTS.option(
        Choice(get_args(Announce)),
        "members",
        "Whom the server tells that members join and leave: `members` and linked servers, linked `servers` only, or "
        "nobody (`off`).",
        reloadable=False,
    )
    max_services: int = OBJECTS.count(
        10_000,
        "Services that one session may provide. Further ones are refused, `too-many-services`.",
    )
    max_services_total: int = OBJECTS.count(
        100_000,
        "Services that all sessions together may provide; services of the server itself and of linked servers are not "
        "counted. Further ones are refused, `too-many-services-in-all`.",
    )
    max_subscriptions: int = OBJECTS.count(
        10_000,
        "Services that one session may be subscribed to. Further subscriptions are refused, `too-many-subscriptions`.",
    )
    max_patterns: int = OBJECTS.count(
        256,
        "Content types or rules in one subscription to objects, and services that it names. A subscription with more "
        "is refused, `bad-subscription`.",
    )
    max_wildcard_characters: int = OBJECTS.count(
        128,
        "Characters of the content types with wildcards inside, such as `a*b` or `*/*`, in one subscription. Exact "
        "types and types with one `*` at an end do not count. A subscription with more is refused, `bad-subscription`.",
    )
    max_routing_ids: int = OBJECTS.count(
        256,
        "Further routing ids that one subscription may ask for. A subscription with more is refused, "
        "`bad-subscription`.",
    )
    max_addressees: int = OBJECTS.count(
        1000,
        "Routing ids that one object is addressed to. An object with more is refused, `too-many-addressees`.",
    )
    routing_id_hold: float = OBJECTS.option(
        SECONDS_OR_NONE,
        60.0,
        "Seconds that the routing id of a client is held after its disconnect, if the client had asked for it. Only "
        "the same actor or address gets it meanwhile. A restart forgets what is held. 0: nothing is held.",
    )
    max_held_ids: int = OBJECTS.count(
        10_000,
        "Routing ids of disconnected clients that are held at the same time. Beyond it the one held longest is free.",
    )
    max_outbound: int = MEMORY.size(
        16 << 20,
        "Bytes that may wait for one client. Beyond it that client is disconnected, `slow-consumer`.",
        reloadable=False,
    )
    max_outbound_total: int = MEMORY.size(
        256 << 20,
        "Bytes that may wait for all clients together; an object that waits for many counts once. Beyond it one client "
        "of the address that most waits for is disconnected, `outbound-full`: the one that has not read for longest.",
    )
    max_inbound_total: int = MEMORY.size(
        256 << 20,
        "Bytes of unfinished objects and packets of all clients together; the first 65536 of each client do not count. "
        "Beyond it one client of the address with most is disconnected, `inbound-full`: the one that began first.",
    )
    send_buffer: int = MEMORY.option(
        Whole("bytes", most=MAX_BUFFER),
        256 << 10,
        "About how many bytes for one client the system is given at a time. Further bytes wait in the server, "
        "where clients share them.",
        reloadable=False,
    )
    max_last_values: int = MEMORY.size(
        64 << 20,
        "Bytes of last values of all services together, kept for new subscribers. Beyond it the last value that was "
        "not used for longest is forgotten, `last-value-evicted`.",
    )
    max_last_value: int = MEMORY.size(
        1 << 20,
        "Bytes of the last value of one service, kept for new subscribers. A larger one is not kept, "
        "`last-value-too-large`; new subscribers begin with an empty message.",
    )
    max_retained: int = MEMORY.size(
        64 << 20,
        "Bytes of retained publications of all services together. Beyond it no further one is retained, "
        "`retained-full`; subscribers are given it all the same.",
    )
    max_retained_per_address: int = MEMORY.size(
        16 << 20,
        "Bytes of retained publications that came from one address (IPv6: from one /64 network). Beyond it as with "
        "`--max-retained`, `retained-address-full`.",
    )
    max_spool_entries: int = SPOOL.count(
        10_000,
        "Entries, such as messages, that are kept in the spool for one session. Further ones are refused, "
        "`spool-full`, or the oldest ones dropped, `spool-dropped`, as its wire format chooses.",
    )
    max_spool: int = SPOOL.size(
        16 << 20,
        "Bytes that are kept in the spool for one session, 100 for each entry and 200 for itself included. Beyond it "
        "as with `--max-spool-entries`.",
    )
    max_spool_per_address: int = SPOOL.size(
        64 << 20,
        "Bytes that are kept in the spool for all sessions of one address (IPv6: of one /64 network). Beyond it as "
        "with `--max-spool-entries`.",
    )
    max_spool_total: int = SPOOL.size(
        1 << 30,
        "Bytes that are kept in the spool for all sessions together. Beyond it as with `--max-spool-entries`.",
    )
    max_requests: int = REQUESTS.count(
        100_000,
        "Open requests of all clients together: those that may still be replied to. Further ones are refused, "
        "`too-many-requests`. No request makes room for another client's.",
    )
    max_requests_per_asker: int = REQUESTS.count(
        10_000,
        "Open requests of one client. Beyond it the client loses its oldest request that was answered; if there is "
        "none, the new one is refused, `too-many-requests`. A request with a long id or many recipients counts as "
        "several.",
    )
    request_timeout: float = REQUESTS.time(
        300.0,
        "Seconds that a request may be replied to. A later reply reaches nobody, `no-such-request`.",
    )
    link_allow: tuple[Network | Literal["unix"], ...] = LINKS.option(
        ORIGINS,
        (),
        "A network, such as 10.0.0.0/8, or an address that servers may link from, or `unix` for UNIX sockets. Servers "
        "from elsewhere are refused, `link-not-allowed`. May be repeated.",
    )
    max_links: int = LINKS.count(
        64,
        "Links with other servers. A further server that wants to link is refused, `too-many-links`. Links that this "
        "server dials are counted, but never refused. The server remembers as many lost links.",
    )
    expect_link: tuple[str, ...] = LINKS.option(
        SERVER_IDS,
        (),
        "The routing id of a server that is to be linked with this one, whichever of them dials, or that is to be on "
        "the net of its uplink. The health of this server is degraded as long as it is not, even if it never was. May "
        "be repeated.",
        example=("attic",),
    )
    max_link_delay: float = LINKS.time(
        30.0,
        "Seconds between two attempts to dial another server, at most. The delay grows with each failure until then.",
    )
    max_linked: int = LINKS.count(
        250_000,
        "Sessions, further routing ids and services that one linked server may advertise. Further ones are ignored, "
        "`link-full`.",
    )
    max_remote_sessions: int = LINKS.count(
        100_000,
        "Sessions that all linked servers together may advertise. Further ones are ignored, "
        "`too-many-remote-sessions`. `--max-sessions` does not count them.",
    )
    max_link_interest: int = LINKS.count(
        200_000,
        "Names and patterns of services that one linked server may want publications on. With more it is given the "
        "publications on every service, `link-interest-full`.",
    )
    max_seen: int = LINKS.count(
        131_072,
        "Objects from linked servers that the server remembers. After this many others, an object that arrives over a "
        "second link may be delivered twice.",
    )
    inbus_allow: tuple[Network, ...] = INBUS.option(
        NETWORKS,
        (),
        "A network, such as 192.168.7.0/24. Every sender may state an address in it for an Inbus subscriber. An "
        "address elsewhere has to be the sender's own; otherwise it is refused, `foreign-address`. May be repeated.",
    )
    inbus_lease: float = INBUS.option(
        SECONDS_OR_NONE,
        3600.0,
        "Seconds that an Inbus subscriber or publisher may be silent. Then its subscription or service ends, "
        "`lease-expired`. If its machine reports that the port is closed, the lease is cut to 30 seconds, "
        "`inbus-unreachable`. 0: no lease ends.",
        reloadable=False,
    )
    inbus_max_rate: int = INBUS.count(
        10_000,
        "Datagrams a second to one address of an Inbus subscriber, after a burst of as many. Further ones are dropped, "
        "`inbus-rate`.",
    )
    inbus_max_host_rate: int = INBUS.count(
        50_000,
        "Datagrams a second to all addresses of Inbus subscribers on one host (IPv6: in one /64 network). Further ones "
        "are dropped, `inbus-host-rate`. Addresses that another host stated share `--inbus-max-rate`. Loopback "
        "addresses are exempt.",
    )
    inbus_receive_buffer: int = INBUS.option(
        Whole("bytes", most=MAX_BUFFER),
        4 << 20,
        "Bytes of Inbus datagrams that may wait to be read. Further datagrams are lost, `inbus-lost`. If the system "
        "grants less, the log says so at the start: raise `net.core.rmem_max`.",
        reloadable=False,
    )
    inbus_max_echoes: int = INBUS.count(
        100,
        "How often an Inbus subscriber may publish the same payload on an app-key that it is subscribed to, with no "
        "pause of 2 seconds. Further ones are dropped, `inbus-echo`: they circulate between two servers.",
    )
    inbus_max_sessions: int = INBUS.count(
        10_000,
        "Inbus subscribers and publishers at the same time. Datagrams of further ones are dropped, "
        "`too-many-sessions`.",
    )
    inbus_max_sessions_per_address: int = INBUS.count(
        256,
        "Inbus subscribers and publishers at the same time with one address. Datagrams of further ones are dropped, "
        "`too-many-sessions`.",
    )
    max_packet: int = SPP.size(
        1 << 20,
        "Bytes of an SPP packet without its header. A client that sends more is disconnected, `packet-too-large`. A "
        "larger update is not sent to SPP clients.",
        reloadable=False,
    )
    slow_spp: SlowSpp = SPP.option(
        SlowPolicy("spp", get_args(SlowSpp)),
        "disconnect",
        "The policy for SPP clients that read slowly. With `spp=disconnect` every update waits for the client, until "
        "`--max-outbound` disconnects it. With `spp=coalesce` only the newest state of each service waits.",
        name="slow",
        reloadable=False,
    )
    spp_max_silent: int = SPP.count(
        2_000,
        "SPP clients that have never subscribed. Beyond it one client of the address with most of them is "
        "disconnected, `too-many-silent`: the one that has waited longest.",
    )
    spp_max_silent_per_address: int = SPP.count(
        64,
        "SPP clients from one address that have never subscribed. Beyond it the one that has waited longest is "
        "disconnected, `too-many-silent`.",
    )
    websocket_origin: tuple[str, ...] = WEBSOCKET.option(
        WEB_ORIGINS,
        (),
        "The origin of web pages that may connect, such as https://hall.example; `*` stands for any characters. Pages "
        "of other origins are refused, `origin-not-allowed`. Clients that are no browsers name no origin, and may "
        "connect. May be repeated.",
        unset="pages from the host that they connect to, if that is an IP address or localhost",
        example=["https://hall.example"],
    )
    websocket_ping: float = WEBSOCKET.option(
        SECONDS_OR_NONE,
        30.0,
        "Seconds after which a WebSocket client that sent nothing is asked for a sign of life. If it gives none within "
        "as many seconds, it is disconnected, `ping-timeout`. 0: nobody is asked.",
    )
    mqtt_retain: MqttRetain = MQTT.option(
        Choice(get_args(MqttRetain)),
        "memory",
        "The place of retained messages of MQTT: `memory`, or the spool as well, to outlive the server (`durable`).",
        reloadable=False,
    )
    announce_discovery: Discovery = MQTT.option(
        Choice(get_args(Discovery)),
        "off",
        "The program that finds services as devices, by retained messages of the server. `homeassistant`: services of "
        "Inbus publishers and of plugins, and those of the object network that say so.",
        reloadable=False,
    )
    mqtt_session_expiry: float = MQTT.time(
        7 * 86400.0,
        "Seconds that a durable MQTT session outlives its connection, at most. A client of 3.1.1 cannot ask for less.",
    )
    mqtt_max_durable: int = MQTT.count(
        100_000,
        "Durable MQTT sessions, with and without a connection. Clients that want further ones are refused, "
        "`too-many-durable-sessions`.",
    )
    mqtt_max_durable_per_address: int = MQTT.count(
        10_000,
        "Durable MQTT sessions that were begun from one address (IPv6: from one /64 network). Beyond it as with "
        "`--mqtt-max-durable`.",
    )
    mqtt_max_unacknowledged: int = MQTT.count(
        1024,
        "Messages of QoS 1 and 2 that an MQTT client is sent before it acknowledges the first of them; fewer if its "
        "Receive Maximum says so. Further ones wait, `mqtt-max-unacknowledged`.",
    )
    mqtt_max_packet: int = MQTT.size(
        1 << 20,
        "Bytes of an MQTT packet from a client. A client that sends more is disconnected, `packet-too-large`.",
        reloadable=False,
    )
    stranger_rate: int = REFUSALS.count(
        10,
        "Records a second of one kind that refusals and limits of one address (IPv6: of one /64 network) may write to "
        "the journal, after a burst of 5 seconds' worth. Further ones are counted in `suppressed` of the next record.",
    )
    stranger_total_rate: int = REFUSALS.count(
        50,
        "Records a second of one kind that refusals and limits of all addresses together may write to the journal, "
        "after a burst of 10 seconds' worth. Further ones are counted in `suppressed` of the next record.",
    )
    journal_session_rate: int = BUDGET.size(
        64 << 10,
        "Bytes of journal a second that the changes of one session, or of all sessions of one address (IPv6: of one "
        "/64 network), may cause after the burst. Further changes wait, `journal-paused`.",
    )
    journal_session_burst: int = BUDGET.size(
        32 << 20,
        "Bytes of journal that the changes of one session, or of all sessions of one address, may cause at once. "
        "After that `--journal-session-rate` limits them.",
    )
    journal_total_rate: int = BUDGET.size(
        1 << 20,
        "Bytes of journal a second that the changes of all sessions that did not authenticate may cause together after "
        "the burst. Further changes wait, `journal-paused`.",
    )
    journal_total_burst: int = BUDGET.size(
        256 << 20,
        "Bytes of journal that the changes of all sessions that did not authenticate may cause together at once. After "
        "that `--journal-total-rate` limits them.",
    )

    def reload(self, new: Settings) -> None:
        """Take the values of the options that a running server can change from another object, all at once."""
        for each in rows(Settings):
            if each.reloadable:
                object.__setattr__(self, each.sets, getattr(new, each.sets))
