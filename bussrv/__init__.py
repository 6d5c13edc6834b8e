"""A message bus server on Twisted: six wire formats, one registry, one audited journal.

From what everybody uses to what uses everything:

- ``version``: the version of the package
- ``errors``: errors, and their stable codes
- ``service_patterns``: patterns over the names of services
- ``values``: frozen values that every layer shares
- ``events``: the vocabulary of registry events, for the registry, the journal and the audit
- ``addresses``: addresses as the journal has them, and how clients are counted by them
- ``patterns``: patterns of any text that take no text long to compare
- ``terminal``: text of strangers, made fit for a terminal
- ``toml_lines``: TOML documents with line numbers
- ``transparency``: open formats of transparency logs: Merkle trees, signed notes, checkpoints, proofs
- ``compiled``: the compiled module, if it is there
- ``turns``: clocks, slices of work, reactor turns
- ``counts``: counting: how many, how long, how often
- ``options``: rows of the table of options, and kinds of values
- ``settings``: every limit and policy that an operator may set, with its default
- ``wire``: bytes to events and back, a module for each wire format
- ``journal``: the registry events on disk: written, sealed, read, judged
- ``incidents``: what somebody should look at, for the audit and the running server
- ``spool``: what must outlive a connection or the process, and has payloads
- ``registry``: sessions, services and subscriptions, and how they change
- ``policy``: who a client is, and what it may do
- ``memory``: what connections hold, and in which turns they are sent to
- ``bus``: who gets what: routing, groups, requests, links to other servers
- ``interfaces``: what plugins implement
- ``net``: connections: ports, transports, TLS, sessions over streams
- ``contract``: the heavy names of ``plugin``
- ``plugin``: what authors of plugins import, and nothing else
- ``formats``: the wire formats on the network, a folder for each
- ``services``: services that the server itself provides
- ``why``: why a session was given an object, or was not
- ``witness``: cosigns checkpoints of logs, and never one that takes something back
- ``admin``: the admin interface, over HTTP
- ``server``: configuration, log, start, reload and stop
- ``embedding``: a server inside another Twisted program
- ``profiles``: the file of profiles, and addresses of servers as people write them
- ``client``: clients for programs and devices, for asyncio and without it
- ``uplink``: programs beside a server that join it to an engine: NATS or Kafka
- ``audit``: the batch job that audits journals
- ``archive``: journals in object stores: shipped there, and fetched back
- ``inspection``: the commands that read a journal
- ``synth``: made-up journals
- ``starter``: the first files of a server
- ``cli``: the command ``bussrv``
- ``testing``: tools for tests of bussrv and of plugins

Tests: ``tests``, in directories of the same names; see ``tests/__init__.py`` for the others.
"""
