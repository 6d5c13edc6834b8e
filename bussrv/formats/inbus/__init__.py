"""Inbus: datagrams of small devices.

- ``drops``: dropped datagrams are counted, logged and journaled; the last two at a limited rate
- ``echoes``: publications that a subscriber sends back, which would circulate for ever
- ``intake``: how much a turn of the reactor reads of the port, and what is lost because more came
- ``outlet``: sending to subscribers
- ``publishers``: publishers
- ``rates``: how many datagrams a second are sent where
- ``server``: small devices, connectionless
- ``subscribers``: subscribers, their leases, and the ghosts among them
- ``users``: the users that senders of datagrams are, by the networks they send from

Tests: ``tests/formats/inbus``.
"""
