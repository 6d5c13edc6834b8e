"""The states of the input of one client, and what leads from one to another. Pure.

Input is *served* when its events are. It is not served while it waits for a slice of time, or for work that an earlier
event began. Then at most a second chunk is read from the connection, which is *paused*. The *last* input is that of a
client that sends no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class State(Enum):
    """A state of the input of one client. The value describes it in words."""

    __hash__ = object.__hash__  # that of enums is a call of Python

    NO_SESSION = "the client is not admitted, or not yet: there is no session and no link"
    READING = "everything is served, except for the beginning of an event"
    READING_DIRECTLY = "the same, and the next chunk is routed as it comes"
    READING_COMMANDS = "a change was answered, nothing waits, and the next chunk may be a command alone"
    SERVING_ALONE = "a command that came alone is served"
    WAITING = "a chunk waits for its slice"
    WAITING_PAUSED = "two chunks wait for their slice"
    WAITING_LAST = "the last input waits for its slice"
    SERVING = "events are served"
    SERVING_PAUSED = "events are served, and a second chunk came"
    SERVING_LAST = "the last events are served"
    BUSY = "work is under way"
    BUSY_PAUSED = "work is under way, and a second chunk came"
    BUSY_LAST = "work is under way, and the client sends no more"
    BUSY_ALONE = "a command that came alone is under way, and nothing waits"
    CUT = "the session is about to end: nothing is served"
    CUT_BUSY = "the same, while work is under way"
    ENDED = "the session has ended"
    ENDED_BUSY = "the session has ended, and its work is still under way"


class InputEvent(Enum):
    """An event in the input of one client. The value describes it in words."""

    ADMITTED = "the session is open"
    CHUNK = "a chunk came, and is read"
    COMMAND = "a command came alone"
    LAST = "the client sends no more"
    SLICE = "its slice begins"
    SLICE_OVER = "its slice is over, and events may be left"
    SERVED = "all is served"
    CLEAR = "all is served, and the next chunk may be routed as it comes"
    ANSWERED = "a command is answered, and nothing waits"
    WORK = "work begins"
    DONE = "work is done, and input may wait"
    CUT = "the session is over a limit, or the connection is lost"
    END = "the session ends"


S = State

READS = (S.READING, S.READING_DIRECTLY, S.READING_COMMANDS)
WAITS = (S.WAITING, S.WAITING_PAUSED, S.WAITING_LAST)
SERVES = (S.SERVING, S.SERVING_PAUSED, S.SERVING_LAST)
BUSY = (S.BUSY, S.BUSY_PAUSED, S.BUSY_LAST, S.BUSY_ALONE)

_ROWS: Mapping[InputEvent, Mapping[tuple[State, ...], State]] = {
    InputEvent.ADMITTED: {(S.NO_SESSION,): S.READING},
    InputEvent.CHUNK: {
        (*READS, S.SERVING_ALONE): S.WAITING,
        (S.WAITING, S.WAITING_PAUSED): S.WAITING_PAUSED,
        (S.SERVING, S.SERVING_PAUSED): S.SERVING_PAUSED,
        (S.BUSY, S.BUSY_PAUSED, S.BUSY_ALONE): S.BUSY_PAUSED,
    },
    InputEvent.COMMAND: {(S.READING_COMMANDS,): S.SERVING_ALONE},
    InputEvent.LAST: {
        (*READS, *WAITS, S.SERVING_ALONE): S.WAITING_LAST,
        SERVES: S.SERVING_LAST,
        BUSY: S.BUSY_LAST,
    },
    InputEvent.SLICE: {
        (S.WAITING,): S.SERVING,
        (S.WAITING_PAUSED,): S.SERVING_PAUSED,
        (S.WAITING_LAST,): S.SERVING_LAST,
    },
    InputEvent.SLICE_OVER: {
        (S.SERVING,): S.WAITING,
        (S.SERVING_PAUSED,): S.WAITING_PAUSED,
        (S.SERVING_LAST,): S.WAITING_LAST,
    },
    InputEvent.SERVED: {(S.SERVING, S.SERVING_PAUSED, S.BUSY): S.READING, (S.SERVING_LAST,): S.CUT},
    InputEvent.CLEAR: {(S.SERVING, S.SERVING_PAUSED): S.READING_DIRECTLY, (S.SERVING_LAST,): S.CUT},
    InputEvent.ANSWERED: {(S.SERVING_ALONE, S.BUSY_ALONE, S.BUSY): S.READING_COMMANDS},
    InputEvent.WORK: {
        (*READS, S.WAITING, S.SERVING): S.BUSY,
        (S.WAITING_PAUSED, S.SERVING_PAUSED): S.BUSY_PAUSED,
        (S.WAITING_LAST, S.SERVING_LAST): S.BUSY_LAST,
        (S.SERVING_ALONE,): S.BUSY_ALONE,
        (S.CUT,): S.CUT_BUSY,
        (S.ENDED,): S.ENDED_BUSY,
    },
    InputEvent.DONE: {
        (S.BUSY,): S.WAITING,
        (S.BUSY_PAUSED,): S.WAITING_PAUSED,
        (S.BUSY_LAST,): S.WAITING_LAST,
        (S.BUSY_ALONE,): S.READING_COMMANDS,
        (S.CUT_BUSY,): S.CUT,
        (S.ENDED_BUSY,): S.ENDED,
    },
    InputEvent.CUT: {(*READS, *WAITS, *SERVES, S.SERVING_ALONE): S.CUT, BUSY: S.CUT_BUSY},
    InputEvent.END: {
        (*READS, *WAITS, *SERVES, S.SERVING_ALONE, S.CUT): S.ENDED,
        (*BUSY, S.CUT_BUSY): S.ENDED_BUSY,
    },
}

TRANSITIONS: Mapping[InputEvent, Mapping[State, State]] = {
    event: {**{state: state for state in State}, **{state: after for states, after in rows.items() for state in states}}
    for event, rows in _ROWS.items()
}
"""The state after each event. In states that a row does not name, the event changes nothing."""
