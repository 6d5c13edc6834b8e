"""Commands that watch and steer a running server.

- ``close``: ``bussrv close``: close a session
- ``drain``: ``bussrv drain``: let a server end its sessions one after the other, and stop
- ``events``: ``bussrv events``: show what happens in the registry, as it happens
- ``health``: ``bussrv health``: show whether a server is ready, and its checks
- ``links``: ``bussrv links``: list the links to other servers, or forget one that is lost
- ``reload``: ``bussrv reload``: let a server read its files again
- ``services``: ``bussrv services``: list the services
- ``session``: ``bussrv session``: show one session, or the history of one that is closed
- ``sessions``: ``bussrv sessions``: list the sessions, or show one of them
- ``tap``: ``bussrv tap``: show objects that go through the server
- ``top``: ``bussrv top``: watch a server
- ``who``: ``bussrv who``: show the providers and the subscribers of a service
"""
