"""The tables of an audit: the schema of records, findings, periods of time, and the recipes of all tables."""
