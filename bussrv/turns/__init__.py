"""Time: the clocks of a server, and work that is done a slice or a reactor turn at a time.

- ``clock``: the clocks of journal records: time of day and monotonic time, in microseconds
- ``in_turn``: things that wait, in turns over the addresses that they are for
- ``reactor_turn``: the end of a reactor turn: work that is done once for all input of the turn
- ``slices``: work in slices, so that a client with much work for the server does not make others wait
- ``threads``: threads that compute. The reactor's thread comes first wherever both want a processor

Tests: ``tests/turns``.
"""
