"""Commands that make and check the files of a server.

- ``check``: ``bussrv check``: check a configuration file before a server starts with it or reloads it
- ``completion``: ``bussrv completion``: the script that lets a shell complete commands, options and names of profiles
- ``init``: ``bussrv init``: make the files of a server that other machines may reach
- ``passwd``: ``bussrv passwd``: adds a user to a file of users, gives it another secret, or deletes it
- ``policy``: ``bussrv policy``: ask a policy file for decisions, and for the lines that decide
- ``token``: ``bussrv token``: makes a bearer token for a user, or deletes the tokens of a user
"""
