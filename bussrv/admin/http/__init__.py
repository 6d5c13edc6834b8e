"""HTTP: connections, requests, who may send them, and answers.

- ``answers``: answers to requests, before they are sent; those to requests that fail are problems (RFC 9457), with
  stable codes
- ``channel``: one HTTP connection, with limits: bytes of a head and of a body, and time for both
- ``guards``: guards against web pages of other hosts that reach the interface with the browser of an operator
- ``login``: callers: the users that send requests, and their permissions
- ``openapi``: the description of the API in OpenAPI 3.1, made from the table of routes
- ``routes``: what a row of the table of routes says, what its function is given, and how the row for a request is found
- ``sending``: answers on their way to a client, with bounded memory
- ``static_files``: the page at ``/``, and everything that it loads from ``/static/``

Tests: ``tests/admin/http``.
"""
