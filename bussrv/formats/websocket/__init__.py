"""Objects over WebSocket.

- ``protocol``: WebSocket: the vocabulary of Object System for web pages

Tests: ``tests/formats/websocket``.
"""
