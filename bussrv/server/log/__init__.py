"""The log of a server.

- ``json``: the log as JSON: one object a line, for programs
- ``levels``: the levels of the log: one for all parts of the server, and others for some parts
- ``refusals``: attacks in the log: failed logins, denials, limits and slow clients, each kind summed up in one line a
  minute
- ``repeats``: repeated lines of the log are limited, and summed up: a fault that comes a thousand times a second is one
  fault
- ``text``: the text of the log

Tests: ``tests/server/log``.
"""
