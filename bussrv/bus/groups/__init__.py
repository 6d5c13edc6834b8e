"""Sessions that are given the same bytes: groups, frames, and how they are sent.

- ``by_service``: groups by the services that they are subscribed to, by name or by patterns
- ``fanout``: fan-out: frames for groups of sessions, each made once and written once
- ``filtering``: sessions with filters: each is in one group for all that it is subscribed to
- ``frames``: one object or publication on its way out, and its frames
- ``receivers``: every session that objects or publications can be sent to, in groups
- ``shares``: shared subscriptions: of the sessions that share a filter, one is given each publication, in turn

Tests: ``tests/bus/groups``.
"""
