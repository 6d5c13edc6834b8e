"""Incidents: what somebody should look at. One judgement for the audit and for a running server; pure.

- ``amounts``: numbers and lengths of time in words
- ``identities``: which sessions had which routing id, for these tables
- ``judging``: the kinds of incidents, their thresholds, and which ones are the worst
- ``neighbours``: troubles with other servers, as the records of one server tell of them: lost links, and clocks
- ``sums``: the bounded tables of a running server, made of its records one by one
- ``tally``: sums of records, and tables of bounded size
- ``vocabulary``: which events are refusals, which ends are no loss, addresses, and clocks
- ``use``: who came back to a session and who provided a service at which time, for these tables
- ``words``: what happened and what to do, in sentences

SQL sums up the facts of an audit (:mod:`bussrv.audit.report.incidents`), ``sums`` the records of a running server. Both
make rows of the same kind, which ``judging`` takes.

Tests: ``tests/incidents``.
"""
