"""Sessions of Spark, tables on disk, progress and failures, for all parts of the audit."""
