"""The composition root: options, configuration and the service that ties everything together.

- ``configuration``: the configuration: options, where their values come from, and what is checked before a start
- ``log``: the log of a server
- ``running``: a running server: its parts, started, reloaded and stopped in order

Tests: ``tests/server``.
"""
