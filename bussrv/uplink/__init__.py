"""Uplinks: programs beside a server that join it to an engine, such as NATS or Kafka. The server knows nothing of them.

- ``bus_link``: the link of an uplink with its server: that of a linked server that dials, on asyncio
- ``settings``: the settings of an uplink

Rooms: ``crossing`` has what crosses, whatever the engine; ``nats`` is the engine NATS.

Tests: ``tests/uplink``.
"""
