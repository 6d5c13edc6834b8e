"""The history of one client or service across journals, with causes: ``bussrv timeline``.

- ``baseline``: the registry before the first segment that is read, as records
- ``causes``: why something ended, for how long services had no provider, and since when clients were away
- ``journals``: the segments of journals, in directories or at URLs, and those of a period
- ``lines``: lines, of which only the members are decoded that say whether they matter
- ``narration``: the rows of a timeline as sentences
- ``query``: every record that concerns one client or one service, in order, with its cause
- ``rows``: the records of one server as rows
- ``scan``: the records that a name leads to, found without decoding all others
- ``similar``: the names with a timeline that are like another one
"""
