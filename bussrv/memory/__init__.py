"""Memory that connections hold, and the turns in which they are sent to.

- ``bundle``: the frames that a session is sent together
- ``limits``: memory held for clients: a total over all sessions, and the session that ends if it is too much
- ``resources``: resources that the connections of all stream formats share
- ``send_turns``: sending in pieces, so that a large object to many sessions does not delay other clients; and sending
  together

Tests: ``tests/memory``.
"""
