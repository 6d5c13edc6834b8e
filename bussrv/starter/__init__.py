"""The files of a server that other machines may reach, for ``bussrv init``. No part of the server imports it.

- ``certificates``: the first certificates of a server: a self-signed authority, and a certificate of the server that it
  signed
- ``directory``: the directory of a new server
- ``texts``: the texts of the first files of a server
- ``uplink``: the texts of an uplink to NATS, for a new server

Tests: ``tests/starter``.
"""
