"""The one judge of a journal: whether lines, segments, headers, seals and the manifest are what they should be.

Facts in, findings out. Nothing here opens a file, asks a clock, or imports Twisted or Spark. Three callers use it:

- recovery (:mod:`bussrv.journal.recovery`) stops at the first finding that no crash explains; it judges neither lines
  to the byte nor snapshots,
- ``bussrv journal verify`` (:mod:`bussrv.journal.verify`) reports all of them,
- the audit (:mod:`bussrv.audit.reading.judged`) writes all of them into its table of findings.

| code | found when | judged by |
|---|---|---|
| ``bad-line`` | a line is no line of a journal, or does not belong there | :class:`.lines.LineJudge` |
| ``bad-line`` | a line is not written as a server writes it, to the byte | :class:`.lines.LineJudge` |
| ``bad-line`` | a line is of another server than the lines before it | :class:`.lines.LineJudge` |
| ``bad-line`` | a snapshot has not as many parts as its header says | :class:`.lines.LineJudge` |
| ``broken-chain`` | a line does not hold the hash of the line before it | :class:`.lines.LineJudge` |
| ``broken-chain`` | a record stands after a record with a higher number | :class:`.lines.LineJudge` |
| ``broken-link`` | a segment does not begin with a header | :class:`.lines.LineJudge` |
| ``seq-gap`` | numbers of records are missing | :class:`.numbers.Numbers` |
| ``seq-duplicate`` | numbers of records are there more than once | :class:`.numbers.Numbers` |
| ``unreadable-segment`` | a segment cannot be decompressed, or exceeds a bound | :func:`.segments.unreadable` |
| ``torn-tail`` | the last segment ends in an unfinished line | :class:`.segments.SegmentJudge` |
| ``bad-line`` | another segment ends in an unfinished line | :class:`.segments.SegmentJudge` |
| ``broken-link`` | a segment is not what the header of the next one says | :class:`.segments.SegmentJudge` |
| ``broken-snapshot`` | a segment does not begin with what the one before adds up to | :class:`.segments.SegmentJudge` |
| ``journal-salvaged`` | a header says that a new chain begins after damage | :class:`.segments.SegmentJudge` |
| ``broken-seal`` | a segment is not what its seals say, or is not sealed | :class:`.segments.SegmentJudge` |
| ``broken-tree`` | a header has another tree than the records before it | :class:`.segments.SegmentJudge` |
| ``broken-tree`` | the checkpoint of a seal is not of the records there | :class:`.segments.SegmentJudge` |
| ``bad-manifest`` | a line of the manifest is wrong, or what follows the last one | :class:`.manifest.EntryJudge` |
| ``bad-manifest`` | an entry that was noted elsewhere is missing | :func:`.segments.judge_manifest` |
| ``bad-manifest`` | an entry that a header refers to is missing | :func:`.segments.judge_references` |
| ``not-witnessed`` | witnesses should have cosigned a checkpoint of a record, and none has | :mod:`.witnesses` |
| ``other-history`` | a checkpoint that was kept elsewhere is not of this journal | :mod:`.witnesses` |
| ``segment-missing`` | a sealed segment is not there, nor was it pruned | :func:`.segments.judge_missing` |

- ``findings``: one finding: its code, its place, and a sentence
- ``lines``: the judge of the lines of a segment, and how a server writes a line, to the byte
- ``manifest``: the judge of the entries of a manifest
- ``numbers``: the numbers of records, of one segment or of many
- ``segments``: the judges of whole segments, and of what is missing
- ``witnesses``: what others say of a journal: witnesses that cosigned, and checkpoints that were kept
- ``registries``: whether a segment begins with what the one before adds up to

A damaged journal is usually found damaged in more than one way. No finding is left out because of another one.
"""
