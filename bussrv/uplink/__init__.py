"""Uplinks: programs beside a server that join it to an engine, such as NATS or Kafka. The server knows nothing of them.

- ``crossing``: what crosses between the servers of a net, and where it goes, whatever the engine
- ``nats``: the engine NATS
- ``bus_connection``: the connection of an uplink to its server, on asyncio
- ``settings``: the settings of an uplink

Tests: ``tests/uplink``.
"""
