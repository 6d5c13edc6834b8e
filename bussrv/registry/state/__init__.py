"""The registry as it is: a fold of events.

- ``event_fold``: the fold: what each event changes in a registry
- ``fold``: the registry for the journal: folded from records, written as a snapshot, and read back
- ``history``: the registry at any moment that a journal knows of
- ``live_snapshot``: the snapshot of a changing registry: entries that did not change since the last one are not encoded
  again
- ``naming``: what a person calls a session, and which words find it
- ``session``: one client's presence, what it claims about itself, and what it is subscribed to
- ``snapshot``: a registry at one moment, as JSON: what ``bus/registry`` and ``bussrv journal state`` show
- ``state``: a registry in full: every session, service and subscription, and the indexes over them

Tests: ``tests/registry/state``.
"""
