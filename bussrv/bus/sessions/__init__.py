"""Sessions: their admission, what they are told of others, and their end.

- ``admission``: admission of sessions: limits to all of them, to those of one address, and to new ones a second
- ``durable``: sessions of a wire format that outlive their connections, and restarts of the server
- ``ending``: the end of a session that provides services: each of them is told to others, so they end a slice at a time
- ``left_open``: the sessions that the last boot left open
- ``membership``: announcements of members that join or leave the object network
- ``named``: clients that say a name by which they come back: which of them is connected, and whose name it is
- ``totals``: totals of what all sessions of a wire format sent and received, for figures of the server
- ``unreachable``: the link of a session without a client
- ``withdrawal``: after its user or the policy has changed, a session immediately loses what it may not have any more

Tests: ``tests/bus/sessions``.
"""
