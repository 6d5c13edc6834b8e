"""Routing of objects. ``audience`` decides who gets one; everything else gives it to them, as fast as it can.

An object of a member, or one that a linked server forwards, is taken by the first of these that can, in this order:

- ``compiled``: objects of members, by the compiled module, without being read one by one
- ``compiled_forward``: the same for objects of linked servers
- ``compiled_result``: how far the compiled module came, and why it stopped
- ``compiled_exchanges``: plain requests and replies of members, by the compiled module, which reads them
- ``batch``: objects that one session sent at once, with requests and replies, by remembered plans
- ``single``: one object or publication, as its own plan says
- ``forward``: objects of linked servers: given to their recipients here, and to further servers

They use:

- ``audience``: who gets an object: everybody who wants it, one provider, the asker, or its addressees
- ``parts``: the parts of a bus that all routers work with
- ``seen``: objects that came over links lately, so that none is delivered twice
- ``route_cache``: facts that follow from the ``route`` of a forwarded object
- ``object_ids``: ids of objects that came without one

Publications of other wire formats come to :meth:`bussrv.bus.routing.single.SingleRouter.publish`.

Tests: ``tests/bus/routing``, ``tests/equality``, ``tests/formats``.
"""
