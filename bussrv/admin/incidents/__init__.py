"""Incidents of the running server: judged, shown, acknowledged, and told to others.

- ``command``: runs the command of ``--on-incident``
- ``earlier``: the incidents that the journal has of before the start
- ``known``: the incidents that are known, with who took note of them
- ``outbox``: tells others of incidents: in turn, with retries, and not too often
- ``troubles``: conditions of the server that last, and are incidents
- ``view``: ``/api/v1/incidents``: shown and acknowledged
- ``watch``: follows the journal and the health of the server: checks, links, clocks of other servers
- ``webhook``: posts incidents to a URL

What an incident is, :mod:`bussrv.incidents` says.

Tests: ``tests/admin/incidents``.
"""
