"""Why a session was given an object, or was not: the decisions of a server, made again from its journal.

- ``records``: the records of a segment, read fast
- ``past``: what a journal knows of a moment: the registry, the rules in effect, and the records that made them so
- ``replica``: a bus of parts in memory, made of that. It routes as the server did, and sends nothing to anybody
- ``outlets``: the links of a replica to its sessions: they note what they are given
- ``network``: replicas that are linked as their servers were
- ``question``: the object, publication or request that is asked about
- ``reasons``: the reasons of each decision, in words, with the record that made it so
- ``answer``: the whole answer
- ``uses``: uses of rights: what sessions did that a policy judges, as a journal tells it
- ``trial``: what a policy would have refused of it
- ``learning``: the least policy that allows it

Tests: ``tests/why``.
"""
