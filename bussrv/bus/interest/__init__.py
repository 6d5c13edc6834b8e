"""Interests of members, and whether they let an object pass.

- ``interests``: what members want, as their subscriptions say it, and what interests look at in an object
- ``matching``: whether an interest lets objects of a kind pass, compiled once for each interest
- ``pattern_index``: finds the patterns that the name of a service matches
- ``total``: the total interest: what all sessions of this server want together of the objects that are for everybody
- ``vocabulary``: names of events that the bus itself looks at, in lower case

Tests: ``tests/bus/interest``.
"""
