"""Connections over a network, of any protocol.

- ``posting``: HTTP requests that post something: to one URL and nowhere else, with bounds
- ``session``: a session over a stream connection, of any wire format
- ``tls``: TLS, at ports and at links
- ``transport``: TCP, UDP and what stands before them
- ``draining``: draining a port: the server is about to stop, so its clients are told, and their sessions end one after
  the other
- ``listening``: ports of wire formats: start, stop, and what they say about themselves

Tests: ``tests/net``.
"""
