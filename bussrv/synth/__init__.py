"""Journals of servers that never ran, of any size and with known faults: to test, to measure and to try the audit.

- ``attacker``: attackers, and clients that are out of order: what they can do, and what is known of what they did
- ``attacks``: attacks and other trouble in the days of a world: which of them, and when
- ``faults``: contradictory records, which no server writes, put into the days of a world on purpose
- ``journal``: a journal of a `~bussrv.synth.world.World`, written with the code that a server writes its own with
- ``scripts``: scripts of attackers and faulty clients
- ``world``: days of a server that never ran: clients come and go, provide and want services, misbehave; servers link
  and crash

Tests: ``tests/synth``.
"""
