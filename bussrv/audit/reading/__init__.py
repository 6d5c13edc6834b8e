"""From the files of journals to records, and findings about segments, lines, seals and chains.

- ``checkpoint``: facts that are kept from one audit to the next, so that closed segments are read once
- ``judged``: the judgements of `bussrv.journal.evidence` on journals, as findings of the audit, and the table of
  segments
- ``processes``: the tasks of the fold, done in this process, or in a few that it starts
- ``remote``: journals that are not on this machine, at URLs: ``s3://…``, ``hdfs://…``
- ``snapshot``: the segments of journals as they are at one moment
- ``sources``: the journals of an audit: directories on this machine, or at URLs
- ``stripes``: from the snapshot of journals to files of facts: how the journals are divided into stripes, the batches
  of work that workers fold
"""
