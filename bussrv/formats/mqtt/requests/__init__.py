"""Requests of clients, and to them. Source: MQTT 5.0, section 4.10.

- ``asking``: requests that clients ask, by messages with a Response Topic
- ``answering``: requests that clients answer

Tests: ``tests/formats/mqtt/requests``.
"""
