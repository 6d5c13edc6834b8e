"""A witness: it cosigns checkpoints of logs, such as journals, and never one that takes something back.

Whoever trusts a witness need not trust those who hold a journal and its key: a log that shows different pasts to
different readers, or forgets its end, gets no cosignature for one of them. The protocol is that of C2SP
(:mod:`bussrv.transparency.witnessing`), so logs and tools of others take part.

- ``memory``: what a witness has cosigned, in a journal of its own
- ``program``: ``bussrv witness``: a witness in a process of its own. :mod:`bussrv.server.running.cosigning`: a server
- ``site``: the HTTP site of a witness, with limits for everybody who can reach it
- ``submitting``: sends the checkpoints of this server's journal to its witnesses, and keeps what they cosign
- ``witness``: judges, keeps and cosigns

Tests: ``tests/witness``.
"""
