"""The Service providing protocol.

- ``offers``: offers and removals: what SPP clients are told of the services that there are
- ``protocol``: the Service providing protocol: clients that subscribe to services
- ``silence``: SPP clients that never subscribed

Tests: ``tests/formats/spp``.
"""
