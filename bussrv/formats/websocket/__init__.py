"""Objects over WebSocket.

- ``protocol``: WebSocket: the vocabulary of Object System for web pages
- ``request``: the first request of a connection: for a WebSocket, or for the script of web pages

``client.js`` is that script.

Tests: ``tests/formats/websocket``.
"""
