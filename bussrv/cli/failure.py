"""Failures that end a command: one sentence on standard error, and an exit status.

docs/reference/command-line.md has the statuses as a table.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from bussrv.errors import BussrvError, RemoteProtocolError

DONE = 0
NO = 1
FAILED = 2
UNREACHABLE = 3
REFUSED = 4
LATE = 5
TAKEN_OVER = 6
INTERRUPTED = 128 + signal.SIGINT
BROKEN_PIPE = 128 + signal.SIGPIPE

MEANINGS: dict[int, str] = {
    DONE: "It was done, or the answer is yes.",
    NO: "The answer is no: nothing was found, something differs or is wrong, or a check failed.",
    FAILED: "The command line is wrong, a file cannot be used, or it could not be done for another reason.",
    UNREACHABLE: "The server cannot be reached, or the connection was lost.",
    REFUSED: "The server refused: the credentials are wrong or missing, or the user is not allowed to do it.",
    LATE: "The server or the service did not answer in time.",
    TAKEN_OVER: "Another process has taken its place.",
    INTERRUPTED: "Ctrl-C ended it.",
    BROKEN_PIPE: "The reader of the output has ended, as with `| head`.",
}
"""The meaning of each status. A command uses some of them; its ``--help`` has the meaning of 0 and 1 for it."""

NOT_YOU = frozenset({"bad-credentials", "not-authenticated", "not-allowed"})
"""Reasons of refusals for which other credentials would help."""


HINT = ": use --token-file, --user with --secret-file, or a profile"

UNANSWERED = frozenset({"timed-out", "login-timeout"})
"""Reasons of errors of connections that were not answered in time."""

TLS_HINT = " Then write tls: before the host"


class Failure(Exception):
    """The command fails.

    :ivar message: one sentence.
    :ivar status: the exit status.
    """

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


@contextmanager
def explained() -> Iterator[None]:
    """Turn exceptions of the clients in :mod:`bussrv.client`, and errors of files, into failures of the command.

    :raises Failure: in place of each of them.
    """
    try:
        yield
    except TimeoutError as error:
        raise Failure(_said(error), LATE) from error
    except ConnectionError as error:
        from bussrv.client.tls import PERHAPS_TLS

        hint = TLS_HINT if _said(error).endswith(PERHAPS_TLS) else ""
        status = _status(error) or _status(error.__cause__) or UNREACHABLE
        raise Failure(f"{_said(error)}{hint}", status) from error
    except RemoteProtocolError as error:
        raise Failure(f"the server sent something malformed: {error}", UNREACHABLE) from error
    except BussrvError as error:
        hint = HINT if getattr(error, "reason", None) == "not-authenticated" else ""
        raise Failure(f"{error}{hint}", _status(error) or FAILED) from error
    except PermissionError as error:
        raise Failure(_of_file(error), FAILED if error.filename else REFUSED) from error
    except OSError as error:
        raise Failure(_of_file(error)) from error
    except ValueError as error:
        raise Failure(str(error)) from error


def _status(error: BaseException | None) -> int | None:
    reason = getattr(error, "reason", None)
    return REFUSED if reason in NOT_YOU else LATE if reason in UNANSWERED else None


def _said(error: OSError) -> str:
    """The sentence of an error. The reason that a client adds says no more, if there was no answer."""
    return str(getattr(error, "message", error))


def _of_file(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
