"""Asking journals: directories, or URLs that journals are shipped to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from bussrv.archive.fetching import at_hand
from bussrv.errors import JournalError
from bussrv.inspection.commands import Names
from bussrv.journal.moments import END, Moment
from bussrv.why.answer import Answer, answer
from bussrv.why.past import SECOND, WINDOW, Past, past_of
from bussrv.why.question import Question


def ask(
    journals: Sequence[Path | str],
    question: Question,
    at: Moment | None,
    *,
    to: str | None = None,
    window: float = WINDOW,
    pseudonyms: Path | None = None,
) -> Answer:
    """Answer a question from the journals of one server or several.

    :param at: ``None``: the end.
    :param to: only sessions that are called so.
    :param window: seconds before and after the moment in which reasons are looked for.
    :param pseudonyms: a file of keys, by which the names in the journal are known.
    :raises JournalError: a journal cannot be read, or does not reach as far back or forth.
    """
    moment = at or END
    if moment.seq is not None and len(journals) > 1:
        raise JournalError(f"{moment} is a record of one journal. To look into several journals, give a time instead")
    moments = [moment]
    if moment.time is not None:
        around = int(window * SECOND)
        moments += [Moment(time=moment.time - around), Moment(time=moment.time + around)]
    with at_hand(journals, moments) as directories:
        pasts = [past_of(each, moment, window) for each in directories]
    servers = [each.server for each in pasts]
    for each in servers:
        if servers.count(each) > 1:
            raise JournalError(f"two of these are journals of the same server, {each}")
    if pseudonyms is not None:
        names = Names(pseudonyms)
        for past in pasts:
            reveal(past, names)
    return answer(pasts, question, to)


def reveal(past: Past, names: Names) -> None:
    """Put the names and addresses in the place of their pseudonyms."""
    state = past.state
    for session in tuple(state.sessions.values()):
        state.sessions[session.id] = names.reveal(session)
    if state.in_effect is not None:
        state.in_effect = names.reveal_rules(state.in_effect)
    past.ended = [replace(each, session=names.reveal(each.session)) for each in past.ended]
