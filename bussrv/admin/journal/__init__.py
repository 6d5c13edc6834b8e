"""Views of the journal: its condition, its records, and the past.

- ``asked_audit``: ``/api/v1/audit``: an audit of the journal that somebody asks for, and its report
- ``audit_runner``: audits of the journal that somebody asks for
- ``audit``: the last summary of an audit that runs beside the server: ``bussrv audit --every``
- ``events``: ``/api/v1/events``: every record of the journal, as it is written, as server-sent events
- ``past``: the past, read from the journal: the history of a session, and the registry at a moment
- ``reading``: reading the journal for a request: off the reactor's thread, one request at a time, and for a limited
  time
- ``recent``: ``/api/v1/closed`` and ``/api/v1/denied``: the latest closed sessions and the latest denials
- ``why``: ``/api/v1/why``: why a session was given an object, or was not
- ``view``: ``/api/v1/journal``: the journal, its last seal, and its room

Tests: ``tests/admin/journal``.
"""
