"""Object System and Business Object: clients, services and servers that exchange objects.

- ``business``: Business Object: the older vocabulary
- ``command_input``: input of members that ask for changes of the registry, one after the other, and wait for each
  answer
- ``dialing``: links that this server dials, and dials again when they are lost
- ``members``: connections of members: objects as events, the commands that both vocabularies have, and logins
- ``object_input``: input of members: objects are routed in batches, except those that the vocabulary serves
- ``object_system``: the vocabulary of clients, services and servers
- ``server_link``: linked servers: Object System between two servers
- ``servers``: a port for linked servers and uplinks alone
- ``vocabulary``: what a vocabulary is: the events that it serves, and the attributes by which clients join

Tests: ``tests/formats/objects``.
"""
