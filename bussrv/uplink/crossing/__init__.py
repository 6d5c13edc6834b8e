"""What crosses between the servers of a net, and where it goes, whatever the engine. Pure.

- ``arrivals``: of the objects that come through the engine, those that are new, and how many are missing
- ``checks``: of what other servers send, what a server may be given
- ``directory``: the sessions of all servers of a net, folded from what each server advertises on its link
- ``frames``: objects on their way through an engine, many in one message
- ``interest``: which objects that are for everybody the servers of a net want
- ``node``: a net of servers, as one of them sees it: to it, all others together are one linked server
- ``outgoing``: objects that wait to be sent, gathered in frames by subject
- ``peers``: the other servers of a net, and how far each directory is known
- ``requests``: who asked, so that replies find the way back, and whom, so that the asker learns if it is gone
- ``server_link``: the link of an uplink with its server: that of a linked server that dials
- ``subjects``: the names that an engine has for where things go

Tests: ``tests/uplink/crossing``.
"""
