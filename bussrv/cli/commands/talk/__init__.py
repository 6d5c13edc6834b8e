"""Commands that are clients of a bus.

- ``alive``: ``bussrv alive``: ask the ports of a server on this machine for a sign of life
- ``bench``: ``bussrv bench``: measure a server that is started for it
- ``pub``: ``bussrv pub``: publish on a service
- ``reply``: ``bussrv reply``: make a service of a shell command
- ``request``: ``bussrv request``: ask a service, and show its reply
- ``sub``: ``bussrv sub``: show publications on services
"""
