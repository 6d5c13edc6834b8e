"""The Twisted side of each wire format: Protocol, Factory, and what listens. Bytes are in :mod:`bussrv.wire`.

A further format is a plugin: see :mod:`bussrv.plugin` and ``docs/how-to/plugins.md``. The server finds all of them by
:func:`bussrv.server.configuration.plugins.installed`.

- ``inbus``: datagrams of small devices
- ``objects``: Object System and Business Object: clients, services and servers that exchange objects
- ``spp``: the Service providing protocol
- ``mqtt``: MQTT 3.1.1 and 5.0: topics are services, filters are patterns over their names
- ``websocket``: objects over WebSocket

Tests: ``tests/formats``.
"""
