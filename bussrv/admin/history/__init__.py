"""The history of the server: figures of the last 30 days in bounded memory, and who was busiest.

- ``columns``: what is kept of each interval, and how intervals are put together
- ``levels``: rings of intervals: of a second, of ten seconds, of five minutes
- ``busiest``: the sessions and the services with most traffic of each interval
- ``packing``: intervals of these in few bytes
- ``storing``: the file that keeps the history over restarts
- ``history``: puts these together: samples, keeps, loads and saves
- ``view``: ``/api/v1/history`` and ``/api/v1/busiest``

Tests: ``tests/admin/history``.
"""
