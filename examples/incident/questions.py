"""The ten questions of an operator, and the command that answers each. It is run where the journals are."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from bussrv.cli.main import main as bussrv_command


class Question(NamedTuple):
    """A question, and its command."""

    sentence: str
    command: str


LINK = Question("Which link is lost, and since when?", "links --profile cellar")
HEALTH = Question("How are all servers?", "servers --profile hall")
GUESSED = Question(
    "Who guesses at the secret of ann, and did it succeed?",
    "journal tail hall --address 127.0.0.66 --event auth.failed,auth.succeeded -n 3",
)
WAITING = Question("The heating is off. Who needs it, and does nobody provide it?", "who heating --profile cellar")
CLOSED = Question("Why is the screen at attic dark?", "timeline screen attic")
WHY = Question(
    "The bell rang. Why did the web page at attic not get it?",
    "why hall cellar attic --service bell --from bell --to page --at {rang}",
)
DOOR = Question(
    "The door does not answer to ann. Who is the door now, and since when?", "journal tail hall --service door"
)
OUTAGE = Question("How long was the heating away?", "timeline heating hall")
LOOK = Question("What needs a look?", "incidents --profile hall")
POLICY = Question("Would a stricter policy have kept the false door out?", "policy try stricter.toml --against hall")


def ask(question: Question, **known: str) -> None:
    """Show a question, its command, and what that prints."""
    command = question.command.format(**known)
    print(f"\n{question.sentence}\n\n$ bussrv {command}", flush=True)
    bussrv_command(shlex.split(command))
