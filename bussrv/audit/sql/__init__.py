"""The tables of an audit as SQL, made from facts. DuckDB and Spark run the same text."""
