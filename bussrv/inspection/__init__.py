"""The state of a journal at any moment, for people and programs.

- ``commands``: the commands ``bussrv journal tail``, ``state`` and ``diff``
- ``difference``: differences between two moments of a registry
- ``forgetting``: the command ``bussrv journal forget``: the key of a person is destroyed, the journal stays as it is
- ``names``: the names and addresses of the pseudonyms of a journal, for whoever has the key file
- ``proof``: the commands that prove a journal: ``bussrv journal verify``, ``seal`` and ``keygen``
- ``surroundings``: the lines of a journal around a place, also where it is damaged
- ``words``: text of strangers, fit for a terminal, and lines in colours

Tests: ``tests/inspection``.
"""
