"""Tests of bussrv. A test of ``bussrv/bus/links/paths.py`` is in ``tests/bus/links/test_paths.py``.

These directories stand for no package:

- ``attacks``: hostile, slow, huge and half-dead clients, and faults of the machine: a file for each row of the threat
  model
- ``conformance``: each wire format, sentence by sentence of its specification
- ``docs``: every command and snippet of the pages
- ``end_to_end``: whole servers, in processes of their own
- ``equality``: the fast ways of routing against the plain reference in ``tests/bus/reference.py``
- ``fuzz``: fuzzers of every parser, and of a whole server
- ``hostile``: bytes of peers that are no message
- ``mutation``: mutants of the code that tests must find
- ``packaging``: wheels, containers, CI
- ``soak``: ten minutes of everything
- ``tamperings``: changed journals, and what ``verify`` and the audit say of each
- ``vectors``: bytes on the wire and on the disk that never change
"""
