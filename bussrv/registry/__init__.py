"""The registry: every session, service and subscription, as a fold of events.

- ``changes``: changes of the registry: checked, journaled, applied, told
- ``journal_budget``: limits to what sessions may journal: bytes of changes, openings, records of refusals
- ``state``: the registry as it is: a fold of events
- ``interfaces``: the interfaces of the registry
- ``outcome``: the outcome of a change: told to a callback inside the registry, by a Deferred at its edge

Tests: ``tests/registry``.
"""
