"""The history of one client or service across journals, with causes: ``bussrv timeline``.

- ``causes``: the context of a record, from the records near it: why something ended (crashes and stops of the server,
  lost links, replaced sessions), and when services have providers
- ``narration``: the rows of a timeline as sentences
- ``query``: every record that concerns one client or one service, in order, with its cause
- ``source``: the records that a timeline is made of, in a Spark session of its own
"""
