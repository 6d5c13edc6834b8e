"""The registry events of journals as a data source of Spark: ``spark.read`` and ``spark.readStream`` of ``bussrv``.

- ``columns``: records as a table: one column for each field of any event
- ``datasource``: what Spark asks of a data source: :func:`bussrv.audit.source.datasource.register`
- ``options``: the options of a reader
- ``positions``: places in a journal, how far it can be read, and its parts for workers of Spark
- ``slices``: reads a part of a segment, and checks that it follows what was read before

Tests: ``tests/audit/source``.
"""
