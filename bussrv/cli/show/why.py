"""The answer for people: a line for each session, those that were not given it first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bussrv.registry.state.naming import called, named
from bussrv.terminal import cleaned, word

if TYPE_CHECKING:
    from bussrv.why.answer import Answer, LinkState, ServerMoment, Verdict

ORDER = ("no", "unknown", "yes")


def lines(shown: Answer) -> Iterator[str]:
    """The lines."""
    yield from map(_moment, shown.moments)
    sender = shown.sender
    name = "somebody" if sender.session is None else cleaned(called(sender))
    yield f"from {name} of {word(sender.server)}"
    if sender.refused is not None:
        yield f"refused: {sender.refused}"
    for answer in ORDER:
        yield from (_session(each) for each in shown.sessions if each.answer == answer)
    if not shown.sessions:
        yield "no session is called so"
    for link in shown.links:
        yield _link(link)
    for note in shown.notes:
        yield f"note: {note}"


def _moment(each: ServerMoment) -> str:
    rules = each.rules
    said = "no policy" if rules.policy is None else f"policy {word(rules.policy)}"
    said = said if rules.is_known else "rules not known"
    since = "" if rules.seq is None or not rules.is_known else f" since record {rules.seq}"
    return f"{word(each.server)} after record {each.seq}, {each.time}: {said}{since}"


def _session(each: Verdict) -> str:
    name, place = named(each), f"{word(each.peer)} over {each.protocol}"
    about = place if name is None else f"{cleaned(name)}, {place}"
    # What says when a link was down names that record.
    record = "" if each.seq is None or each.reason == "link-down" else f"; record {each.seq}"
    since = f"; since {each.time}" if each.seq is None and each.time is not None else ""
    return f"{each.answer:<7} {about}, at {word(each.server)}: {each.why}{record or since}"


def _link(each: LinkState) -> str:
    if each.is_up:
        said = "forwarded" if each.is_forwarded else "not forwarded"
    else:
        said = f"down since record {each.down}" + ("" if each.up is None else f", up again with record {each.up}")
    return f"link    {word(each.server)} to {word(each.peer)}: {said}"
