"""Sessions of Spark, tables on disk, progress and failures, for all parts of the audit.

- ``failure``: errors of Spark, and of its absence, in one line
- ``java``: the Java that Spark would run on
- ``session``: Spark sessions
- ``store``: tables kept on disk, and options of Spark
- ``surroundings``: settings for Spark if the user or the host has no name, as in many containers
- ``tables``: the tables of an audit, made of very large facts: by Spark, with the SQL by which DuckDB makes those of
  others
- ``workers``: the tasks of the fold, done by Spark's Python workers: one job, one task each, without a shuffle
"""
