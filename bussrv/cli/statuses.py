"""Exit statuses of the ``bussrv`` command. docs/reference/command-line.md has them as a table."""

from __future__ import annotations

import signal

DONE = 0
NO = 1
FAILED = 2
UNREACHABLE = 3
REFUSED = 4
LATE = 5
INTERRUPTED = 128 + signal.SIGINT
BROKEN_PIPE = 128 + signal.SIGPIPE

MEANINGS: dict[int, str] = {
    DONE: "It was done, or the answer is yes.",
    NO: "The answer is no: nothing was found, something differs or is wrong, or a check failed.",
    FAILED: "The command line is wrong, a file cannot be used, or it could not be done for another reason.",
    UNREACHABLE: "The server cannot be reached, or the connection was lost.",
    REFUSED: "The server refused: the credentials are wrong or missing, or the user is not allowed to do it.",
    LATE: "The server or the service did not answer in time.",
    INTERRUPTED: "Ctrl-C ended it.",
    BROKEN_PIPE: "The reader of the output has ended, as with `| head`.",
}
"""The meaning of each status. A command uses some of them; its ``--help`` has the meaning of 0 and 1 for it."""
