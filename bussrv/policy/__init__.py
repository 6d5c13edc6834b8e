"""Authentication of clients and their permissions. Imports neither the bus nor wire formats.

What sessions lose when permissions change: :mod:`bussrv.bus.sessions.withdrawal`.

- ``logins``: identity of clients, as far as they can prove it
- ``permissions``: permissions of sessions, by the policy
- ``interfaces``: the interface of identity

Tests: ``tests/policy``.
"""
