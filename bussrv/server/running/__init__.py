"""A running server: its parts, started, reloaded and stopped in order.

- ``admin``: the admin interface of a server: its port, its token file, what it is shown of the server, and how other
  servers are asked
- ``checkpoints``: the checkpoints of the journal that a server writes: the last one, the growth since others, and
  cosignatures
- ``cosigning``: the server as a witness of other journals, such as those of the servers that it is linked with
- ``identity``: the checkers that ``--auth`` names: made at the start, and again whenever the configuration is read
  again
- ``incidents``: the incidents of a server in effect: judged while it runs, and told to those whom the options name
- ``journal``: the journal of a server: recovered, opened and closed
- ``links``: the links that a server dials: a list of descriptions, which may change while the server runs
- ``policy``: the policy that is in effect: read from its file at the start, and again at each reload
- ``ports``: the ports of a server
- ``process``: the process of a server: its clock, garbage collector and file descriptors, and the service manager that
  started it
- ``reload``: the configuration is read again while the server runs
- ``service``: the composition root: starts and stops all parts of a server in order
- ``signals``: stop the server in an orderly way, re-open its log file, or have it read its configuration again
- ``twistd``: the ``twistd bussrv`` command: a process that is a server
- ``witnesses``: the witnesses that cosign the journal: asked while the server runs

Tests: ``tests/server/running``.
"""
