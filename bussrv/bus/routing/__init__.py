"""Routing of objects. ``single`` decides who gets one; everything else comes to the same, faster.

An object of a member, or one that a linked server forwards, is taken by the first of these that can, in this order:

- ``compiled``: objects of members, by the compiled module, without being read one by one
- ``compiled_forward``: the same for objects of linked servers
- ``compiled_result``: how far the compiled module came, and why it stopped
- ``batch``: objects that one session sent at once, for everybody who wants them, by remembered plans
- ``request_batch``: requests and replies that one session sent at once, by remembered plans
- ``single``: one object: to its addressees, to one provider, to the asker, or to every session that wants it
- ``forward``: objects of linked servers: given to their recipients here, and to further servers

They use:

- ``recipients``: the addressees of an object, or every session that wants it
- ``outlets``: groups that are given the same objects by every plan, and share the bytes
- ``seen``: objects that came over links lately, so that none is delivered twice
- ``route_cache``: facts that follow from the ``route`` of a forwarded object
- ``object_ids``: ids of objects that came without one

Publications of other wire formats do not come here: :meth:`bussrv.bus.bus.Bus.publish`.

Tests: ``tests/bus/routing``, ``tests/bus/test_bus.py``, ``tests/equality``, ``tests/conformance``.
"""
