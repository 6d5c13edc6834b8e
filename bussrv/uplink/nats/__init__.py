"""The engine NATS.

- ``checkpoints``: the newest seal of a journal, for whoever wants to hold it against the journal later
- ``connection``: the connection to NATS: nats-py's, which gives what comes on subjects of this net away at once, in
  order
- ``directory_stream``: the stream with the directories of a net, for servers that come later, or were away
- ``kept``: services of which NATS keeps what was published, so that a server that was away gets it when it is back
- ``program``: the program of an uplink to NATS: it keeps the link with its server, and the connection to the engine
- ``session``: one session of an uplink: from the moment that the link with its server stands, until it ends
- ``settings``: the settings of an uplink to NATS, and their checks
- ``subjects``: what each subject of NATS stands for, and services as subjects

Tests: ``tests/uplink/nats``.
"""
