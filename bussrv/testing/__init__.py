"""Helpers for tests of bussrv and of wire formats written for it.

- ``conformance``: the kit that judges wire formats
- ``clients``: clients of a server in memory, for tests without coroutines
- ``fixtures``: fixtures for pytest
- ``journal``: a journal in memory, which the test holds back, slows down, or lets fail
- ``memory``: a whole server in memory, on a clock that the test moves
- ``pytest_plugin``: each promise of a wire format is a test of pytest
- ``mqtt``: a client of MQTT in memory, packet by packet
- ``reactor``: its reactor: a clock that is moved, and ports in memory
- ``server``: a real server in a process of its own, started through ``twistd`` as a user would
- ``spool``: a spool in memory, without a thread
- ``uplink``: a real uplink in a process of its own, started as ``bussrv uplink``

Tests: ``tests/testing``.
"""
