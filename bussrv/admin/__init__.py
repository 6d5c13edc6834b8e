"""The admin interface: an HTTP server that shows what the bus does, and steers it.

- ``figures``: figures of the server: health, metrics, limits, and what changes every second
- ``history``: the history of the server: figures of the last 30 days in bounded memory, and who was busiest
- ``http``: connections, requests, who may send them, and answers
- ``incidents``: incidents of the running server: judged, shown, acknowledged, and told to others
- ``journal``: views of the journal: its condition, its records, and the past
- ``registry``: sessions, services, subscriptions and links: shown, and changed by operators
- ``servers``: all servers at once: this one, those that it is linked with, and those of ``--admin-peer``
- ``interfaces``: the server, as the admin interface needs it
- ``site``: the site and its port: checks the requests of all connections, and calls the functions of the routes
- ``state``: the memory of the admin interface: recent records, figures and streams, besides the registry
- ``table``: the one table of routes: a row for everything that the admin interface answers
- ``tap``: ``/api/v1/tap``: a stream of some of the objects that pass

``static`` is the dashboard: a page that asks these routes. Its figures come from :mod:`bussrv.admin.figures.live` every
second, its lists from ``registry`` and ``journal``.

Tests: ``tests/admin``; those of the dashboard: ``tests/admin/dashboard``.
"""
