"""The report for people: one HTML file that needs nothing else.

- ``activity``: the parts of a report about sessions, traffic and services, each with the query that finds it
- ``charts``: their time axis, in equal steps of a round length, and their geometry, as paths of an SVG drawing that is
  one unit wide for each step and 100 high
- ``commands``: commands that show the surroundings of what an audit found, for a shell
- ``facts``: the facts of a report: plain values, few however large the journals are
- ``incidents``: findings that belong together, attacks, crashes, contested ids, and services that were down
- ``journals``: the parts of a report about journals (servers, boots, seals, findings), each with the query that finds
  it
- ``page``: the report as one HTML file that needs nothing else: no other file, no network
- ``questions``: questions to the tables of an audit that have short answers, as SQL that DuckDB runs
- ``summary``: the last step of every audit: how it was made, its summary for programs and for people, and its report
- ``text``: numbers, lengths of time, moments and names, formatted for people
- ``trouble``: the parts of a report about refusals, attacks, contested ids, links, leases and events, each with its
  query
- ``verdict``: the verdict, what stands out in words, the findings in groups, and the sessions by duration, made from
  facts
"""
