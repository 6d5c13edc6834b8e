"""Permissions of sessions, by the policy.

- ``access``: the permissions of each session, by its user and its address
- ``file``: the policy file: TOML, read into rules
- ``permissions``: what a session may do, receive and see, other sessions included: actions and targets
- ``rules``: the rules of a policy, and the permissions that they give: the first clause that matches decides

Tests: ``tests/policy/permissions``.
"""
