"""Changes of the registry: checked, journaled, applied, told.

- ``holds``: routing ids that are held for the clients that had them: no other client gets one right after its owner has
  left
- ``lifetimes``: how long sessions have been open, by the monotonic clock, so that setting the wall clock does not
  change it
- ``observers``: the observers of the registry
- ``planned``: the planned state: the registry as it will be when every pending change is durable
- ``registry``: the registry: changes are checked, journaled, applied, answered, and told to the observers
- ``reserved``: the names of services that only the server itself may provide
- ``rules``: the rules of the registry
- ``service_changes``: the short way of the most frequent changes: a client registers a service, or unregisters it
- ``write_ahead``: the write-ahead rule: a change is journaled, durable, applied, told to the observers, and then to its
  client

Tests: ``tests/registry/changes``.
"""
