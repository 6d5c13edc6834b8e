"""Permissions of sessions, by the policy.

- ``access``: the permissions of each session, by its user and its address
- ``file``: the policy file: TOML, read into rules
- ``permissions``: everything that a session may do, receive and see
- ``rules``: the rules of a policy, and the permissions that they give

Tests: ``tests/policy/permissions``.
"""
