"""The parts of the client for asyncio.

- ``driver``: drives a core over asyncio: sockets, timers, and one connection after the other
- ``service``: services of programs with an event loop
- ``subscription``: subscriptions of programs with an event loop

Tests: ``tests/client``.
"""
