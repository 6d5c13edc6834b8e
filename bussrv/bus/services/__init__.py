"""Services: publications on them, across wire formats, and those that the server itself provides.

- ``announcements``: services whose providers want them announced as devices
- ``bridge``: across formats: what an object is to subscribers of a service, and a publication to the object network
- ``directory``: the names of all services, sorted when somebody asks: most are in order then, so that it takes little
  time
- ``durable_retained``: retained publications of a wire format that outlive the server
- ``hosted``: a hosted service, which the server itself provides, as the bus knows it
- ``hosted_subscribers``: hosted services: those that the server itself provides, and to whom of their subscribers they
  show what
- ``last_values``: the last payload published on each service: a new subscriber begins with it
- ``own_topics``: topics on which the server itself retains something, made when somebody asks
- ``publishing``: publications of a batch: collected service by service, and encoded together for the subscribers
- ``retained``: retained publications: the last one on a service that its publisher wants kept
- ``traffic``: counts publications by service
- ``wills``: what the server publishes in the name of clients of a wire format that it lost

Tests: ``tests/bus/services``.
"""
