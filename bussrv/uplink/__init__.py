"""``bussrv uplink``: joins a server to a larger engine that runs elsewhere, such as NATS or Kafka.

An uplink is a program of its own, on asyncio, beside the server. The server imports nothing of it, and never waits for
it: an uplink that stops or waits costs the server nothing.

- ``crossing``: what crosses between the servers of a net, and where it goes, whatever the engine
- ``kafka``: the engine Kafka
- ``nats``: the engine NATS
- ``bus_connection``: the connection of an uplink to its server, on asyncio
- ``figures``: counters of an uplink, for Prometheus and for its log
- ``lines``: lines of the log of an uplink
- ``retry``: tries again after failures, with growing pauses
- ``seals``: the last seal of each segment, read from a manifest while the server adds to it
- ``stopping``: the end of an uplink: its parts stop together

Tests: ``tests/uplink``.
"""
