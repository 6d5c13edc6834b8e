"""Sessions of Spark, tables on disk, progress and failures, for all parts of the audit.

- ``crew``: the tasks of the fold, done by Spark's Python workers: one job, one task each, without a shuffle
- ``failure``: errors of Spark, and of its absence, in one line
- ``java``: the Java that Spark would run on
- ``session``: Spark sessions
- ``store``: tables kept on disk, and options of Spark
- ``surroundings``: settings for Spark if the user or the host has no name, as in many containers
- ``tables``: the tables of an audit with Spark: DuckDB makes them in this process, but of very large facts Spark does,
  by the same SQL
"""
