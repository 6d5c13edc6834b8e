"""A server inside another Twisted program.

- ``configuration``: the configuration of such a server: the program's settings, and nothing else
- ``pipe``: a connection without a socket

Tests: ``tests/embedding``.
"""
