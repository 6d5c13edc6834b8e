"""The clients of the wire formats without sockets and clocks.

- ``base``: what the cores of all wire formats have in common
- ``framing``: how objects travel: as they are, or in messages of a WebSocket
- ``inbox``: the bounded queue of a subscription
- ``inbus``: the core of Inbus
- ``making``: the core for an address
- ``membership``: what a member of the object network asks the server for, and what the server has granted
- ``names``: names of services that may have wildcards
- ``objects``: the core of Object System, Business Object and WebSocket
- ``payload``: payloads and attributes, as programs give them
- ``provided``: the services that a member provides, and the requests that it was given for them
- ``requests``: the answers that a core waits for
- ``rules``: the rules of observers, as the server reads them
- ``spp``: the core of the Service providing protocol

Tests: ``tests/client/core``.
"""
