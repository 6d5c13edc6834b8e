"""The state of a journal at any moment, for people and programs.

- ``checkpoint``: the command ``bussrv journal checkpoint``
- ``commands``: the commands ``bussrv journal tail``, ``state``, ``diff`` and ``forget``
- ``difference``: differences between two moments of a registry
- ``proof``: the commands that prove a journal: ``bussrv journal verify``, ``seal`` and ``keygen``
- ``proving``: the commands ``bussrv journal prove`` and ``check-proof``
- ``standalone_check``: the program that checks a bundle without bussrv
- ``surroundings``: the lines of a journal around a place, also where it is damaged
- ``timeline``: the history of one client or service across journals, with causes: ``bussrv timeline``
- ``words``: text of strangers, fit for a terminal, and lines in colours

Tests: ``tests/inspection``.
"""
