"""The Twisted side of each wire format: Protocol, Factory, plugin.

- ``inbus``: datagrams of small devices
- ``objects``: Object System and Business Object: clients, services and servers that exchange objects
- ``spp``: the Service providing protocol
- ``websocket``: objects over WebSocket

Tests: ``tests/formats``.
"""
