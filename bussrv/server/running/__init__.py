"""A running server: its parts, started, reloaded and stopped in order.

- ``admin``: the admin interface of a server: its port, its token file, and what it is shown of the server
- ``collector``: the settings of Python's garbage collector for a server
- ``identity``: the checkers that ``--auth`` names: made at the start, and again whenever the configuration is read
  again
- ``journal``: the journal of a server: recovered, opened and closed
- ``links``: the links that a server dials: a list of descriptions, which may change while the server runs
- ``monotonic``: the reactor of a server uses the monotonic clock
- ``policy``: the policy that is in effect: read from its file at the start, and again at each reload
- ``ports``: the ports of a server
- ``reload``: the configuration is read again while the server runs
- ``service``: the composition root: starts and stops all parts of a server in order
- ``signals``: stop the server in an orderly way, re-open its log file, or have it read its configuration again
- ``supervisor``: messages to the service manager about the state of the server

Tests: ``tests/server/running``.
"""
