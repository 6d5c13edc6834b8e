"""The tables of an audit as SQL, made from facts. DuckDB and Spark run the same text.

- ``activity``: the tables of servers, sessions, absences, traffic, refusals, leases and links
- ``database``: tables in DuckDB: those that an audit makes of facts, and those that it wrote, asked for the report
- ``findings``: findings about records that contradict each other, or the rules of the registry, as SQL
- ``services``: the tables of services: when each was provided and wanted, outages, and subscriptions in vain
- ``tables``: the tables of an audit, made of facts and written as Parquet
"""
