"""The configuration: options, where their values come from, and what is checked before a start.

- ``check``: everything that a start checks, without opening a port and without writing to the journal
- ``config``: configuration: the values of options, checked and put together
- ``exposure``: exposed ports: other machines can reach them
- ``faults``: faults of values, collected so that all of them are reported together
- ``option_kinds``: kinds of values that only options of the server take
- ``option_table``: the one table of options, for the command line, environment variables, the configuration file and
  the documentation
- ``option_texts``: texts for people that are made from the table of options: ``--help`` and the sample configuration
  file
- ``options``: the ``twistd`` side of the options: the command line, ``--help``, and how a bad start is reported
- ``plugins``: the plugins that are installed: wire formats, and services of the server itself
- ``rehearsal``: a rehearsal of a start, for ``bussrv check``: nothing is opened or made
- ``sources``: the values that the sources of options give, each with its place

Tests: ``tests/server/configuration``.
"""
