"""Bytes to events and back, one module or package a wire format. Pure: no Twisted, no clock, no logging, no policy.

- ``faults``: sentences for faulty metadata: not JSON, or not as its reader wants it
- ``forwarded``: objects as they are forwarded: metadata with another ``route``, and with an ``id`` if it has none
- ``frames``: WebSocket (RFC 6455): the upgrade of an HTTP connection, then frames, whatever their messages carry
- ``head``: the head of an object: the attributes that routing needs, read from its metadata
- ``inbus``: one JSON object a datagram, on UDP
- ``mqtt``: MQTT 3.1.1 and 5.0: packets on TCP, or in messages of a WebSocket
- ``objects``: JSON metadata, NUL, payload
- ``proxy``: the header with which a proxy says whose connection it is
- ``reader``: base of the readers of stream formats: chunks in, events out one by one, and an error that lasts
- ``script``: the script for web pages, which the port of WebSocket serves too, over HTTP
- ``spp``: the Service providing protocol: packets on TCP
- ``websocket``: objects over WebSocket: each message carries one

Tests: ``tests/wire``.
"""
