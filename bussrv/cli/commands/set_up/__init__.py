"""Commands that make and check the files of a server.

- ``cert``: ``bussrv cert``: renew the certificate of a server
- ``check``: ``bussrv check``: check a configuration file before a server starts with it or reloads it
- ``completion``: ``bussrv completion``: the script that lets a shell complete commands, options and names of profiles
- ``conformance``: ``bussrv conformance``: judge a wire format
- ``init``: ``bussrv init``: make the files of a server that other machines may reach
- ``logins``: ``bussrv passwd`` and ``token``: change the files of users and of bearer tokens
- ``policy``: ``bussrv policy``: ask a policy file for decisions, and for the lines that decide
"""
