"""Small blocking clients for each wire format, for integrators.

- ``_deadline``: how much longer a call may wait
- ``_framed``: base of the clients of Object System and Business Object: objects, requests and their answers
- ``_payload``: payloads of clients
- ``_stream``: base of the clients of stream formats: a connection over TCP or TLS that is read event by event
- ``admin``: a client of the admin interface: HTTP with JSON, and streams of server-sent events
- ``business``: a client of Business Object
- ``inbus``: a client of Inbus
- ``objects``: a client of the Object System
- ``spp``: a client of the Service providing protocol
- ``tls``: TLS for the clients of stream formats

Tests: ``tests/client``.
"""
