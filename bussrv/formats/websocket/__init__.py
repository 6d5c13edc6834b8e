"""Objects over WebSocket, and the WebSockets of other wire formats.

- ``protocol``: WebSocket: the vocabulary of Object System for web pages
- ``request``: the first request of a connection: for a WebSocket, or for the script of web pages
- ``socket``: the WebSocket of a session, whatever its messages carry: the upgrade, which pages may connect, signs of
  life, and the end

``client.js`` is that script.

Tests: ``tests/formats/websocket``.
"""
