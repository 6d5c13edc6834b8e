"""The ``bussrv`` command of ``twistd``, its wire formats, services and checkers, by name only.

This directory must not be a package.
"""

from twisted.application.service import ServiceMaker

from bussrv.plugin import CheckerFactory, HostedService, WireFormat

bussrv = ServiceMaker(
    "bussrv",
    "bussrv.server.running.twistd",
    "A message bus server: six wire formats, one registry, one journal.",
    "bussrv",
)

objects = WireFormat(
    "objects",
    module="bussrv.formats.objects.object_system",
    default_endpoint="tcp:7890:interface=127.0.0.1",
    summary="Object System: clients, services and servers that exchange objects",
)

business = WireFormat(
    "business",
    module="bussrv.formats.objects.business",
    default_endpoint="tcp:7891:interface=127.0.0.1",
    summary="Business Object: older clients: the same framing, other event names",
)

inbus = WireFormat(
    "inbus",
    module="bussrv.formats.inbus.server",
    default_endpoint="udp:7222:interface=127.0.0.1",
    summary="Inbus: small devices, connectionless",
)

spp = WireFormat(
    "spp",
    module="bussrv.formats.spp.protocol",
    default_endpoint="tcp:3002:interface=127.0.0.1",
    summary="Service providing protocol: clients that subscribe to services",
)

websocket = WireFormat(
    "websocket",
    module="bussrv.formats.websocket.protocol",
    default_endpoint="off",
    summary="web pages: Object System, each object a WebSocket message",
)

mqtt = WireFormat(
    "mqtt",
    module="bussrv.formats.mqtt.port",
    default_endpoint="off",
    summary="MQTT 3.1.1 and 5.0: sensors, actors and home automation",
)

servers = WireFormat(
    "servers",
    module="bussrv.formats.objects.servers",
    default_endpoint="off",
    summary="Object System for linked servers and uplinks alone",
)

registry_service = HostedService(
    "bus/registry",
    module="bussrv.services.registry",
    content_type="application/json",
    summary="who is there and who wants what, then every registry event",
)

statistics_service = HostedService(
    "bus/statistics",
    module="bussrv.services.statistics",
    content_type="application/json",
    summary="numbers and counters, then what changes every second",
)

clock_service = HostedService(
    "bus/clock",
    module="bussrv.services.clock",
    content_type="text/plain",
    summary="the time of the server, every second",
)

users_checker = CheckerFactory(
    "users",
    takes="FILE",
    module="bussrv.policy.logins.checkers",
    summary="A file of users with hashes of their secrets, which `bussrv passwd` makes.",
)

tokens_checker = CheckerFactory(
    "tokens",
    takes="FILE",
    module="bussrv.policy.logins.checkers",
    summary="A file of hashes of bearer tokens, which `bussrv token` makes.",
)

certificates_checker = CheckerFactory(
    "certificates",
    takes="cn | dns | email | uri",
    module="bussrv.policy.logins.checkers",
    summary="TLS client certificates: this field of a certificate is the user.",
)
