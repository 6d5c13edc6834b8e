"""Durable sessions of MQTT: they outlive their connections, and restarts of the server.

What all formats with durable sessions share is :mod:`bussrv.bus.sessions.durable`.

- ``sessions``: every durable session, the link to it, and what is kept of it besides its messages
- ``queue``: the messages of QoS 1 and 2 of one: in the spool until its client has acknowledged them

Tests: ``tests/formats/mqtt/durable``.
"""
