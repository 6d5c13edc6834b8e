"""Inbus: datagrams of small devices.

- ``drops``: dropped datagrams are counted, logged and journaled; the last two at a limited rate
- ``intake``: how much a turn of the reactor reads of the port, and what is lost because more came
- ``outlet``: sending to subscribers, and how many datagrams a second are sent where
- ``publishers``: publishers, and publications that a subscriber sends back
- ``server``: small devices, connectionless
- ``subscribers``: subscribers, when their leases end, and the ghosts among them
- ``users``: the users that senders of datagrams are, by the networks they send from

Tests: ``tests/formats/inbus``.
"""
