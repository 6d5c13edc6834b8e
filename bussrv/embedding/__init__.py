"""A server inside another Twisted program.

- ``client``: a client on the reactor of its server
- ``configuration``: the configuration of such a server: the program's settings, and nothing else
- ``pipe``: a connection without a socket
- ``service``: ``make_service``: a server as a part of another program

Tests: ``tests/embedding``.
"""
