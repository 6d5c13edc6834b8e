"""From the segments of journals to facts, in one pass and in pure Python, without Spark and Twisted.

- ``absences``: the absences of one durable session: when its client was away, and which records contradict that
- ``baseline``: the baseline: the registry before the first record of a server, as records
- ``border_join``: sessions that may go on in another stripe
- ``boots``: boots of servers, clocks, and everything else that is not about one session
- ``facts``: the columns of what the fold finds in stripes
- ``holdings``: one service, or one subscription, of one session: when it was held, and which records of it contradict
  each other
- ``lines``: the lines of a segment as typed records
- ``record_columns``: records of one server, in order, and columns of them: numbers, with which many records are
  compared at once
- ``segments``: one segment: its bytes, its digests, its records, and what the judge says of its lines
- ``session_fold``: one session of one server: what its records say of it; the plain form, for any session
- ``stored``: files in an object store that speaks S3, at ``s3://BUCKET/PATH``, which Spark calls ``s3a://BUCKET/PATH``
- ``stripe``: the fold of one stripe: a state machine that takes in records in the order of their server
- ``suspicions``: suspicions about a session: opened or closed twice or never, records outside of it, numbers that do
  not fit
- ``tasks``: the tasks of the fold, which any process of any machine does: each reads files, writes files, and says how
  it went
- ``vectorised``: the same of many usual sessions at once: opened, then closed, all in one stripe, with nothing
  suspicious in between; the fast form
"""
