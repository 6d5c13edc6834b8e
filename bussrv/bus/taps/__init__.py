"""Taps: operators see objects that pass.

- ``tap``: one tap: its filter, and the objects that wait for its reader
- ``taps``: an operator sees objects that pass, each once, with the number of sessions that received it

Tests: ``tests/bus/taps``.
"""
