"""Commands that watch and steer a running server, or run beside it.

- ``health``: ``bussrv health``: show whether a server is ready, and its checks
- ``incidents``: ``bussrv incidents``: list what needs a look, and take note of it
- ``lists``: ``bussrv services``, ``sessions``, ``links``, ``servers`` and ``who``: lists of the things that a server
  has
- ``session``: ``bussrv session``: show one session, or the history of one that is closed
- ``steer``: ``bussrv close``, ``reload`` and ``drain``: let a server do something
- ``streams``: ``bussrv events`` and ``tap``: show what happens in a server, as it happens
- ``top``: ``bussrv top``: watch a server, or with ``--all`` all of them
- ``uplink``: ``bussrv uplink``: join a server to a larger engine: NATS or Kafka
- ``witness``: ``bussrv witness``: cosign the checkpoints of journals
"""
