"""Changes of the registry: checked, journaled, applied, told.

- ``observers``: the observers of the registry
- ``planned``: the planned state: the registry as it will be when every pending change is durable
- ``registry``: the registry: changes are checked, journaled, applied, answered, and told to the observers
- ``rules``: the rules of the registry, the names of services that only the server itself may provide, and routing ids
  that are held for the clients that had them
- ``service_changes``: the short way of the most frequent changes: a client registers a service, or unregisters it
- ``write_ahead``: the write-ahead rule: a change is journaled, durable, applied, told to the observers, and then to its
  client

Tests: ``tests/registry/changes``.
"""
