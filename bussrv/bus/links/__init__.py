"""Links to other servers: their coming and going, and the sessions that are reached over them.

- ``advertisement_fields``: routing advertisements: events in which linked servers tell each other of the sessions they
  can reach
- ``advertisements``: advertising: this server tells linked servers which sessions can be reached from here
- ``facts``: facts of a link to another server, for other parts of the server
- ``gaps``: a linked server says that objects of other servers were lost on their way here
- ``interest_fields``: interest over a link: the event in which a server says what it wants of the objects that are for
  everybody
- ``interests``: linked servers say what they want of the objects that are for everybody, and are told the same
- ``jobs``: jobs in steps: one job after the other, some steps in each slice
- ``link``: one link to another server that is up
- ``link_interest``: what a linked server wants of the objects that are for everybody, as it said
- ``links``: the links to other servers: their coming and going, advertisements, and which of them are given an object
- ``lost_links``: links that were up, and are gone: operators see each of them until it is back, or until they forget it
- ``marks``: ids in a ``route`` that keep route-only servers from doubling objects
- ``paths``: path-vector routing (as in RFC 4271): the sessions of other servers, and the link over which each is
  reached
- ``remote_sessions``: keeps the registry in step with the paths: the sessions that other servers have are sessions of
  it, too
- ``rights``: the rights of links: of which sessions and services a linked server may tell

When a link breaks, its session ends as any other, and the journal has ``link.down``. The bus tells the askers of gone
providers, :mod:`bussrv.bus.requests.gone_providers`; :meth:`links.Links.down` tells the other linked servers, forgets
the sessions that were reached over it alone, and keeps it for operators; the members learn of those sessions by
:mod:`bussrv.bus.sessions.membership`.

Tests: ``tests/bus/links``.
"""
