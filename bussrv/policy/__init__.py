"""Authentication of clients and their permissions. Imports neither the bus nor wire formats.

What sessions lose when permissions change: :mod:`bussrv.bus.sessions.withdrawal`.

- ``logins``: who a client is, as far as it can prove it
- ``permissions``: what a session may do, by the policy
- ``interfaces``: the interface of identity

Tests: ``tests/policy``.
"""
