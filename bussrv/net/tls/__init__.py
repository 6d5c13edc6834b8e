"""TLS, at ports and at links.

- ``certificates``: certificates and keys for TLS: read from files and checked, so that each fault names its file
- ``connection``: a connection that speaks TLS: to the reactor a protocol, to the session that it serves a transport
- ``context``: the settings of TLS, kept in one place for ports and for links, and certificates that can be read again
- ``dialing``: links over TLS: client endpoints that begin with ``tls:``
- ``link_tokens``: tokens by which this server proves to another one who it is
- ``output``: the output of sessions over TLS. Their input is in `bussrv.net.tls.connection`
- ``ports``: ports that speak TLS: endpoints that begin with ``ssl:``; handshakes, limited in number and in time

Tests: ``tests/net/tls``.
"""
