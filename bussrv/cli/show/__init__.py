"""Output for people and programs.

- ``figures``: figures of a running server, and the growth of its totals in a second
- ``output``: the output of commands: lines, JSON and tables
- ``records``: records of the journal that the admin interface sends, for people
- ``registry``: the registry at a moment, for people: tables of sessions, services and subscriptions
- ``servers``: all servers at once: the columns of their lists, and a summary of all of them
- ``screen``: the screen of ``bussrv top``, and the keys that a person presses meanwhile
- ``why``: the answer of ``bussrv why``, for people
"""
