"""A board of readings: a Twisted program with a web page of its own and a bus inside.

- ``board``: the program
- ``board.tac``: starts it: ``twistd -ny examples/board/board.tac``

Tests: ``tests/examples``.
"""
