"""The answer for people: a line for each session, those that were not given it first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bussrv.terminal import word

if TYPE_CHECKING:
    from bussrv.why.answer import Answer, LinkState, ServerMoment, Verdict

ORDER = ("no", "unknown", "yes")


def lines(shown: Answer) -> Iterator[str]:
    """The lines."""
    yield from map(_moment, shown.moments)
    sender = shown.sender
    name = sender.actor or sender.claimed or sender.name or sender.routing_id
    yield f"from {'somebody' if sender.session is None else word(name or sender.session)} of {word(sender.server)}"
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
    user = each.actor or (None if each.claimed is None else f"({each.claimed})")
    called = [word(part) for part in (user, each.name) if part]
    about = [*(called or [word(each.routing_id)]), each.protocol, word(each.peer)]
    # What says when a link was down names that record.
    record = "" if each.seq is None or each.reason == "link-down" else f" (record {each.seq})"
    since = f" (since {each.time})" if each.seq is None and each.time is not None else ""
    return f"{each.answer:<7} {' '.join(about)} at {word(each.server)}: {each.why}{record or since}"


def _link(each: LinkState) -> str:
    if each.is_up:
        said = "forwarded" if each.is_forwarded else "not forwarded"
    else:
        said = f"down since record {each.down}" + ("" if each.up is None else f", up again with record {each.up}")
    return f"link    {word(each.server)} to {word(each.peer)}: {said}"
