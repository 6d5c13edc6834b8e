"""The services that the server itself provides, and what hosts them.

- ``clock``: ``bus/clock``: the time of the server in UTC, every second while subscribed to:
  ``2026-11-21T14:02:03.000123Z``
- ``discovery``: who and what is there, on topics of the server: ``$bus/…``, and what Home Assistant is told
- ``hosting``: hosting of the services of the server itself
- ``live_views``: the views of the registry that are kept up to date: the whole, and one for each of some sets of
  permissions
- ``registry``: ``bus/registry``: the registry as JSON, then every journaled event, exactly as in the journal
- ``registry_view``: the registry as sessions with some permissions see it
- ``statistics``: ``bus/statistics``: figures of the server as JSON; then, every second while there are subscribers, the
  changes

Tests: ``tests/services``.
"""
