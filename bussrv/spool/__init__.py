"""The spool: what must outlive a connection or the process, and has no place in the journal, because it has payloads.

Wire formats keep opaque bytes here: the queue of a session without a connection, messages that are not acknowledged
yet, values that outlive a restart. It is an SQLite file in a directory beside the journal, made when something is kept
for the first time.

- ``accounts``: how much is kept for each owner and address and in all, held against the limits
- ``common``: entries that many owners have in common: a row for all of them
- ``entries``: owners and entries, the changes of them, and the outcomes
- ``file``: the file of a spool: opened for one server, checked, set aside if it is damaged
- ``forgetting``: removing what is kept for a person, also while a server uses the spool
- ``interfaces``: the requests that wire formats may make of a spool
- ``merging``: what one writer changes in a turn, put together into few changes
- ``rounds``: what many writers change, in rounds of bounded size, and the writers in turn
- ``spool``: one thread, one commit for everything that queued up meanwhile
- ``store``: a spool as transactions: changes, readings, what expires, and the file tidied up
- ``tables``: owners and entries as tables: each change of them
- ``undo``: what takes changes in memory back

Tests: ``tests/spool``.
"""
