"""The PySpark batch job that audits journals.

- ``fold``: from the segments of journals to facts, in one pass and in pure Python, without Spark and Twisted
- ``reading``: from the files of journals to records, and findings about segments, lines, seals and chains
- ``report``: the report for people: one HTML file that needs nothing else
- ``source``: the registry events of journals as a data source of Spark: ``spark.read`` and ``spark.readStream`` of
  ``bussrv``
- ``spark``: sessions of Spark, tables on disk, progress and failures, for all parts of the audit
- ``sql``: the tables of an audit as SQL, made from facts
- ``aliases``: paths for DuckDB and Arrow to open
- ``arguments``: the arguments of the audit on a command line
- ``job``: the audit as a job: ``bussrv audit``, ``python -m bussrv.audit.job`` and ``spark-submit`` run it; programs
  that have a Spark session call :func:`audit`
- ``kinds``: the kinds of findings, how severe they are, and what they mean to people who did not write the server; and
  the meanings of events and reasons
- ``live``: an audit that is made again and again: ``bussrv audit --every``
- ``output``: the directory that an audit writes to, and the tables in it
- ``progress``: the progress of an audit: the duration of each phase, and a bar for it on a terminal
- ``query``: questions of a reader to the tables of a finished audit: SQL that DuckDB answers, and the tables as CSV

Whether a journal was tampered with is judged where journals are read and written, by :mod:`bussrv.journal.evidence`:
:mod:`bussrv.audit.reading.judged` asks it.

Tests: ``tests/audit``.
"""
