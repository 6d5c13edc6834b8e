"""Routing: who gets an object, one by one, in batches, and by the compiled module.

- ``batch``: batches: objects that one session sent at once, for everybody who wants them
- ``compiled``: splicing: most objects of members are routed by the compiled module, without being read one by one
- ``compiled_forward``: splicing of objects that come over links: most are forwarded by the compiled module
- ``compiled_result``: the outcome of a stretch of input
- ``forward``: forwarding: objects that a linked server sent are given to their recipients here, and to further servers
- ``object_ids``: ids of objects that came without one
- ``outlets``: groups that are given the same objects by every route plan of a table, and share the bytes
- ``recipients``: recipients of one object: its addressees, or every session that wants it
- ``request_batch``: exchanges: the requests and replies that one session sent at once, routed by plans
- ``route_cache``: the route cache: facts that follow from the ``route`` of an object that a linked server forwarded
- ``seen``: objects that came over links lately, so that none is delivered twice, however servers are linked
- ``single``: routing of one object: to its addressees, to one provider, to the asker, or to every session that wants it

Tests: ``tests/bus/routing``.
"""
