"""The clients of the wire formats without sockets and clocks.

- ``base``: the base of the cores of all wire formats
- ``framing``: how objects travel: as they are, or in messages of a WebSocket
- ``inbox``: the bounded queue of a subscription
- ``inbus``: the core of Inbus
- ``making``: makes the core of a wire format
- ``membership``: how a member of the object network joins, and its subscription: wanted, asked for, and granted
- ``names``: names of services as programs give them, perhaps with wildcards
- ``objects``: the core of Object System, Business Object and WebSocket
- ``payload``: payloads and attributes, as programs give them
- ``provided``: the services that a member provides, and the requests that it was given for them
- ``requests``: the answers that a core waits for
- ``rules``: the rules of observers, as the server reads them
- ``spp``: the core of the Service providing protocol

Tests: ``tests/client/core``.
"""
