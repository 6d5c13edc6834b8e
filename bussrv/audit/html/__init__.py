"""The report for people: one HTML file that needs nothing else.

``model``: what a report says, small and plain. ``facts``: takes that from the tables with Spark. ``page``: makes the
HTML of it, purely. Only ``facts``, ``buckets`` and ``curves`` know Spark.
"""
