"""The ``bussrv`` command.

- ``commands``: the commands, each named by its function
- ``show``: output for people and programs
- ``traffic``: clients of a bus, for the commands
- ``admin_client``: a client of the admin interface: HTTP with JSON, and streams of server-sent events
- ``asking``: requests to the admin interface, and lists of its answers
- ``command``: the classes of commands: help with examples and exit statuses, and subcommands that are imported when
  needed
- ``connection``: the server that a command uses, and the user: from the command line, the environment or a profile
- ``failure``: failures that end a command: one sentence on standard error, and an exit status
- ``main``: the ``bussrv`` command: tables of subcommands
- ``parameters``: values of options, options that several commands share, and checks of options that exclude each other
- ``streams``: standard input, output and error of this process

Tests: ``tests/cli``.
"""
