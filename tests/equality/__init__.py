"""The server, fast, and something obvious that has to come to the same.

- ``test_machine``: the whole server against ``reference``, byte for byte: ``arena``, ``clients``, ``peer``, ``linked``,
  ``judging``, ``histories``, ``words`` and ``writing`` are its parts
- ``test_compiled``: the server with the compiled module against the server without it, and each object that the module
  takes against Python
- ``test_exchanges``: requests and replies by plans against each of them routed by itself
- ``test_backpressure``: clients that read nothing
- ``test_sanitizers``: the compiled module under sanitizers of memory
"""
