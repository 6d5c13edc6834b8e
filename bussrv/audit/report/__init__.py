"""The report for people: one HTML file that needs nothing else.

``facts`` asks the tables (``..._facts``, ``incidents``, ``questions``, ``steps``), returns plain values (``model``),
and ends every audit. ``page`` makes HTML of them with the files in ``templates``. ``summary`` makes ``summary.json``.
"""
