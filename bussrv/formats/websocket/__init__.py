"""Objects over WebSocket, and the WebSockets of other wire formats.

- ``protocol``: WebSocket: the vocabulary of Object System for web pages
- ``request``: the first request of a connection: for a WebSocket, or for the script of web pages
- ``socket``: the WebSocket of a session, whatever its messages carry: the upgrade, pings, and the end
- ``origins``: web pages that may connect
- ``heartbeat``: signs of life of clients

``client.js`` is that script.

Tests: ``tests/formats/websocket``.
"""
