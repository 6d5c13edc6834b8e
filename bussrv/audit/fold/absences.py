"""The absences of one durable session: when its client was away, and which records contradict that.

A stripe may begin while a session is away. So a stripe keeps *moves*: the records that say that the client went or came
back, and the changes between them. What they mean is settled when those of all stripes are put together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bussrv.audit.fold.holdings import Place

GONE, BACK, CHANGED = range(3)

MOVES = {"session.left": GONE, "session.resumed": BACK}
"""The events with which a client goes and comes back."""

LATEST = 253_402_300_799_999_999
"""The last microsecond of the year 9999. A session that is kept for longer is kept for ever."""


class Move(NamedTuple):
    """A client went or came back, or its session changed.

    :ivar last_seq: the number of the record; of several changes in a row, of the last one.
    :ivar until: when a session that is away ends, UTC microseconds.
    """

    code: int
    place: Place
    last_seq: int
    until: int = 0
    reason: str | None = None
    actor: str | None = None
    address: str | None = None


class Absence(NamedTuple):
    """An absence. Times are UTC microseconds.

    :ivar end: ``None``: it is not over.
    :ivar gone: the last move with which the client went.
    :ivar back: the move with which it came back; ``None``: its session was closed, or it is away.
    """

    begin: int
    end: int | None
    gone: Move
    back: Move | None


class Disorder(NamedTuple):
    """Records that contradict an absence; the numbers of the first and of the last one."""

    kind: str
    first_seq: int
    last_seq: int


def add_move(moves: list[Move], move: Move, *, is_begun: bool) -> None:
    """Add the next move of a session.

    :param is_begun: whether ``moves`` has all moves of the session up to now.
    """
    if move.code != CHANGED:
        moves.append(move)
    elif moves and moves[-1].code == CHANGED:
        moves[-1] = moves[-1]._replace(last_seq=move.last_seq)
    elif moves[-1].code == GONE if moves else not is_begun:
        moves.append(move)


def absences(moves: Sequence[Move], closed_at: int | None) -> Iterator[Absence]:
    """The absences of a session, in order. They do not overlap, also if the clock was set back.

    :param moves: all of them, until it was closed.
    :param closed_at: when that was; ``None``: it is open.
    """
    found: Absence | None = None
    earliest = 0
    for move in moves:
        if move.code == GONE and found is None:
            found = Absence(max(move.place[1], earliest), None, move, None)
        elif move.code == GONE and found is not None:
            found = found._replace(gone=move)
        elif move.code == BACK and found is not None:
            earliest = max(move.place[1], found.begin)
            yield found._replace(end=earliest, back=move)
            found = None
    if found is not None:
        yield found if closed_at is None else found._replace(end=max(closed_at, found.begin))


def disorders(moves: Sequence[Move]) -> Iterator[Disorder]:
    """The moves of a session that contradict each other. See :func:`absences`."""
    gone: Move | None = None
    for move in moves:
        if move.code == CHANGED:
            if gone is not None:
                yield Disorder("session-changed-while-away", move.place[0], move.last_seq)
        elif move.code == GONE:
            if gone is not None:
                yield Disorder("session-left-twice", gone.last_seq, move.last_seq)
            gone = move
        else:
            if gone is None:
                yield Disorder("session-resumed-unleft", move.last_seq, move.last_seq)
            gone = None
