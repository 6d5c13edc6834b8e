"""Routing: interests, recipients, fan-out, links to other servers and the bridge across formats.

- ``groups``: sessions that are given the same bytes: groups, frames, and how they are sent
- ``interest``: interests of members, and whether they let an object pass
- ``links``: links to other servers: their coming and going, and the sessions that are reached over them
- ``requests``: requests that are open: who may reply, and who is told if nobody can
- ``routing``: who gets an object, one by one, in batches, and by the compiled module
- ``services``: publications on them, across wire formats, and those that the server itself provides
- ``sessions``: their admission, what they are told of others, and their end
- ``taps``: operators see objects that pass
- ``bus``: the bus: routes objects and publications among sessions and links
- ``copied_limits``: limits that a part of the server keeps a copy of, because it looks at them for every object or
  datagram
- ``flush_schedule``: when collected frames are sent: after each chunk of input, or once for all connections read in a
  reactor turn
- ``generation``: how long plans of the routing are right
- ``interfaces``: the interfaces of the bus: what wire formats ask of it, and what it asks of them
- ``link_clocks``: clocks of linked servers: how far each is ahead, measured by pings
- ``origins``: where an object comes from, and what all objects of a session have in common
- ``send_rights``: whether a session may do something
- ``shared``: values that the parts of a bus share
- ``uses``: what the sessions of this server publish, send and ask for, summed up an hour for the journal

Tests: ``tests/bus``.
"""
