"""The engine of an audit in this process: the fold and DuckDB, without Java."""
