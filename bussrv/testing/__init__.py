"""Helpers for tests of bussrv and of wire formats written for it.

- ``server``: a real server in a process of its own, started through ``twistd`` as a user would
- ``uplink``: a real uplink in a process of its own, started as ``bussrv uplink``
"""
