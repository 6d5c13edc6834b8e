"""A session over a stream connection, of any wire format.

- ``backlog``: chunks that wait to be sent to one client, because its transport is full or others are served first
- ``client_link``: sends to one client; it is cut, as a slow consumer, when too much waits for it
- ``ending``: the end of a connection: of its services, its session and itself, when the client is slow or gone, too
- ``failing``: what a wire format raises is counted and logged, and ends one session at most
- ``factory``: makes the protocols of the connections of one port, or of the links that this server dials
- ``identification``: the user that the client of one connection has proved to be, the same in every stream format
- ``input``: what one client sent, how far it is served, and its memory
- ``input_states``: the states of input, and what leads from one to another
- ``long_answer``: made and sent a slice at a time, and no faster than the client takes them
- ``protocol``: the base of all stream formats: each connection is one session; its begin, and the hooks of wire formats
- ``timers``: what a session waits for and repeats, until its end

Tests: ``tests/net/session``.
"""
