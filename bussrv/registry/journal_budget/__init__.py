"""Limits to what sessions may journal: bytes of changes, openings, records of refusals.

- ``budget``: the budget of the journal: which changes may begin now, and which have to wait
- ``deferred_openings``: sessions whose opening is not journaled yet, so that nobody can fill the journal by connecting
- ``spending``: sessions pay for the journal bytes of their changes, so that nobody can fill the journal with them
- ``strangers``: a limited rate for records that any client can cause: refusals, limits, failed logins

Tests: ``tests/registry/journal_budget``.
"""
