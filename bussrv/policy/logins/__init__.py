"""Identity of clients, as far as they can prove it.

- ``certificate_users``: users from TLS client certificates that were verified
- ``checkers``: what proves who a client is, each named by a description of ``--auth``
- ``credentials``: credentials, which clients give to prove who they are, and what becomes of them
- ``identity``: who clients are, as far as they can prove it
- ``line_file``: files of lines that say who clients are: users, and tokens
- ``login_delays``: how long the next login waits after failed ones: of one address, and of one address for one user
- ``login_history``: the memory of logins: which users failed and succeeded at which addresses, and how often a secret
  was given
- ``login_queue``: logins that wait for their secret to be checked, which is slow by design
- ``logins``: logins with a secret, of every wire format: checked a few at a time, because a check is slow by design
- ``tokens``: bearer tokens: whoever has one is its user
- ``trusted``: reading files that decide what clients may do: nobody but their owner may write them
- ``users``: a file of names and hashed secrets, the scheme of the hash, and how both are checked
- ``verified_secrets``: secrets that were right a short time ago, so that a thousand clients that come back do not cost
  a slow check each

Tests: ``tests/policy/logins``.
"""
