"""The report for people: one HTML file that needs nothing else.

``facts`` asks the tables with Spark (``..._facts``, ``questions``, ``steps``), and returns plain values (``model``).
``page`` makes HTML of them with the files in ``templates``, without Spark. ``summary`` makes ``summary.json``.
"""
