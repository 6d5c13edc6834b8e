"""Figures of the server: health, metrics, limits, and what changes every second.

- ``codes``: ``/api/v1/codes``: the meaning of reasons and counters, for programs that show them to people
- ``figures``: figures of the server and of its process, and the limits that have refused clients lately
- ``health``: ``/healthz`` and ``/readyz``: whether the server lives, and whether it should be sent clients
- ``limits``: ``/api/v1/limits`` and ``/api/v1/counters``: what is limited, and how often each limit was hit
- ``live``: ``/api/v1/live``: figures every second, as server-sent events
- ``metrics``: ``/metrics``: figures of the server for Prometheus
- ``observing``: the functions of the routes for observation: health, metrics, and the streams of records and of figures
- ``server``: ``/api/v1/server``: which server this is, and what the caller may do

Tests: ``tests/admin/figures``.
"""
