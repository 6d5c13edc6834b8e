"""Objects over WebSocket.

- ``heartbeat``: a heartbeat: a client that has sent nothing for a while is asked for a sign of life, and ends if it
  gives none
- ``link``: the link to one client over a WebSocket: each object is a message, and the connection ends with a close
  frame
- ``origins``: web pages that may open a WebSocket here
- ``protocol``: WebSocket: the vocabulary of Object System for web pages

Tests: ``tests/formats/websocket``.
"""
