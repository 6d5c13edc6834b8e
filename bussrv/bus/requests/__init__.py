"""Requests that are open: who may reply, and who is told if nobody can.

Requests and replies are routed by :mod:`bussrv.bus.routing.single`; which provider is asked is decided by
:mod:`bussrv.bus.routing.audience`.

- ``answerers``: the members that may answer a request for a service that nobody registered
- ``exchanges``: sessions with filters ask and answer, though they are no members
- ``gone_providers``: providers that go before they answered: each asker is told at once, so that it does not wait for
  its time-out
- ``open_requests``: only sessions that were asked can reply, and each reply finds the asker
- ``records``: open requests: their askers, the sessions that were asked, and the id that each of these knows a request
  by: it is shown under another one to those that know a request by its own already

Tests: ``tests/bus/requests``.
"""
