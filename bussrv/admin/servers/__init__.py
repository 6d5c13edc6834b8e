"""All servers at once: this one, those that it is linked with, and those of ``--admin-peer``.

Routing advertisements say which servers there are, how they are linked, and which sessions they have. Everything else
is asked for: each server has a summary of itself at its admin interface.

- ``facts``: facts of a server that it tells others: the form of its summary
- ``summary``: ``/api/v1/summary``: one server in a few figures
- ``asking``: asks the admin interface of another server for its summary; for a thread
- ``peers``: asks the servers of ``--admin-peer`` every few seconds, and keeps their answers
- ``view``: ``/api/v1/servers`` and ``/api/v1/net``: all servers, and all links between them

Tests: ``tests/admin/servers``.
"""
