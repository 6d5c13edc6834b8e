"""Identity of clients, as far as they can prove it.

- ``checkers``: what proves who a client is, each named by a description of ``--auth``
- ``credentials``: credentials, which clients give to prove who they are, and what becomes of them
- ``identity``: who clients are, as far as they can prove it
- ``login_history``: the memory of logins: who failed and succeeded at which addresses, and which secrets were right or
  wrong
- ``login_queue``: logins that wait for their secret to be checked, which is slow by design
- ``logins``: logins with a secret, of every wire format: checked a few at a time, because a check is slow by design
- ``tokens``: bearer tokens: whoever has one is its user
- ``trusted_files``: files that decide who clients are and what they may do: nobody but their owner may write them
- ``users``: a file of names and hashed secrets, the scheme of the hash, and how both are checked

Tests: ``tests/policy/logins``.
"""
