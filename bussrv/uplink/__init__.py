"""``bussrv uplink``: joins a server to a larger engine that runs elsewhere, such as Kafka.

An uplink is a program of its own, on asyncio, beside the server. The server imports nothing of it, and never waits for
it: an uplink that stops or waits costs the server nothing.

- ``kafka``: the engine Kafka
- ``figures``: counters of an uplink, for Prometheus and for its log
- ``lines``: lines of the log of an uplink
- ``retry``: tries again after failures, with growing pauses
- ``stopping``: the end of an uplink: its parts stop together

Tests: ``tests/uplink``.
"""
