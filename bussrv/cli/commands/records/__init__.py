"""Commands that read journals.

- ``audit``: ``bussrv audit``: check journals and report sessions, services and events; ask the tables of an audit
- ``journal``: ``bussrv journal``: commands that read, verify and seal a journal, also while a server writes it;
  or make one up
- ``timeline``: ``bussrv timeline``: the history of one client or service, from the journals of one or more servers
- ``why``: ``bussrv why``: why a client was given an object, or was not
"""
