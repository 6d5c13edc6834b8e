"""A session over a stream connection, of any wire format.

- ``backlog``: chunks that wait to be sent to one client, because its transport is full or others are served first
- ``factory``: makes the protocols of the connections of one port, or of the links that this server dials
- ``identification``: the user that the client of one connection has proved to be, the same in every stream format
- ``link``: the link to one client over a stream
- ``long_answer``: made and sent a slice at a time, and no faster than the client takes them
- ``protocol``: base of all stream formats: wire formats over TCP or UNIX sockets, in which each connection is one
  session
- ``unread``: input of one client that is not served yet: reading it, and counting its memory
- ``work``: work for a client that is not done at once: the client's later input waits for it, other clients do not

Tests: ``tests/net/session``.
"""
