"""Clients for each wire format, for programs that connect to a server.

- ``_stream``: base of the plain clients over TCP: a connection, perhaps with TLS, that is read event by event
- ``address``: the addresses that clients connect to: URLs, and profiles of the command
- ``aio``: a client for asyncio, for all wire formats: it reconnects, and loses nothing silently
- ``blocking``: the same for programs without an event loop
- ``business``: a plain client of Business Object
- ``core``: the clients of the wire formats without sockets and clocks
- ``errors``: the errors that clients raise
- ``events``: everything that a client is told: messages, requests, replies, objects, gaps and states
- ``inbus``: a plain client of Inbus
- ``objects``: a plain client of the Object System, and the base of that of Business Object
- ``settings``: the settings of a client
- ``shell``: the parts of the client for asyncio
- ``spp``: a plain client of the Service providing protocol
- ``tls``: connections of the clients of stream formats, perhaps over TLS

A plain client blocks, has one connection, and shows what the wire format says.

Tests: ``tests/client``.
"""
