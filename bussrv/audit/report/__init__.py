"""The report for people: one HTML file that needs nothing else.

``facts`` asks the tables about ``journals``, ``activity``, ``trouble`` and ``incidents``, and returns plain values.
``page`` makes HTML of them with the files in ``templates``. ``summary`` makes ``summary.json``, and ends every audit.
"""
