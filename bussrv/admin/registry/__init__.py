"""Sessions, services, subscriptions and links: shown, and changed by operators.

- ``collections``: pages of collections: filtered, sorted and cut, in steps of bounded time
- ``links``: ``/api/v1/links``: the servers that this one is linked with, or tries to link with
- ``services``: ``/api/v1/services``: the services, with their providers and subscribers and the wire format of each
- ``sessions``: ``/api/v1/sessions``: every session, of this server and of linked ones
- ``subscriptions``: ``/api/v1/subscriptions``: who is subscribed to what
- ``writes``: the actions of operators that change something

Tests: ``tests/admin/registry``.
"""
