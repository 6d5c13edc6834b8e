"""The Service providing protocol.

- ``coalescing``: the backlog of a slow SPP client that gets only the newest state of each service
- ``info``: Info packets: how SPP clients are given publications, and the states of services
- ``offers``: offers and removals: what SPP clients are told of the services that there are
- ``protocol``: the Service providing protocol: clients that subscribe to services
- ``silence``: SPP clients that never subscribed

Tests: ``tests/formats/spp``.
"""
