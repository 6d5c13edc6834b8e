"""Draw the states of input from their table of transitions: ``python docs/_ext/state_picture.py`` writes it anew.

Two events lead away from every state of a session, so they are no arrows: ``CUT`` leads to ``CUT``, and ``END`` to
``ENDED``; while work is under way, to ``CUT_BUSY`` and ``ENDED_BUSY``. An arrow from the frame stands for one from each
state in it: there everything is served.
"""

from __future__ import annotations

from math import hypot
from pathlib import Path

from bussrv.net.session.input_states import BUSY, READS, SERVES, TRANSITIONS, WAITS, InputEvent, State

PICTURE = Path(__file__).parents[2] / "docs/explanation/input-states.svg"

BOX_WIDTH, BOX_HEIGHT = 168, 30
COLUMN, ROW = 300, 110
LEFT, TOP = 100, 80
BEND, LEAST_BEND = 0.1, 26
"""How far an arrow bends to its left, as a part of its length, and at least: two states may lead to each other."""

BESIDE = 0.7
"""The words are beside arrows that are steeper than that."""

Point = tuple[float, float]

AT: dict[State, Point] = {
    State.READING: (0, 0),
    State.READING_DIRECTLY: (0, 1),
    State.READING_COMMANDS: (0, 3),
    **{state: (1, row) for row, state in enumerate(WAITS)},
    **{state: (2, row) for row, state in enumerate(SERVES)},
    **{state: (3, row) for row, state in enumerate(BUSY)},
    State.SERVING_ALONE: (1.5, 3),
    State.NO_SESSION: (0, 4.4),
    State.CUT: (1, 4.4),
    State.CUT_BUSY: (1, 5.2),
    State.ENDED: (2, 4.4),
    State.ENDED_BUSY: (2, 5.2),
}
"""The column and the row of each state."""


def arrows() -> dict[tuple[State | None, State], list[str]]:
    """The events of each arrow; those from ``None`` are from the frame, around the states in which all is served."""
    found: dict[tuple[State | None, State], list[str]] = {}
    for event, after in TRANSITIONS.items():
        if event in (InputEvent.CUT, InputEvent.END):
            continue
        together = {after[state] for state in READS}
        sources: list[State | None] = [state for state in State if after[state] is not state]
        if len(together) == 1:
            sources = [None, *(state for state in sources if state not in READS)]
        for source in sources:
            target = after[READS[0] if source is None else source]
            found.setdefault((source, target), []).append(event.name)
    return found


def picture() -> str:
    """The picture as SVG."""
    width = max(x for x, _ in AT.values()) * COLUMN + 2 * LEFT
    height = max(y for _, y in AT.values()) * ROW + TOP + BOX_HEIGHT
    lines = [_arrow(source, target, events) for (source, target), events in arrows().items()]
    x, y, width_of_frame, height_of_frame = _frame()
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="sans-serif">\n'
        "<title>The states of the input of one client, and the events that lead from one to another</title>\n"
        '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#777"/></marker></defs>\n'
        f'<rect x="{x:g}" y="{y:g}" width="{width_of_frame:g}" height="{height_of_frame:g}" rx="10" fill="none" '
        f'stroke="#35608f" stroke-dasharray="6 4"/>\n{"".join(lines)}{"".join(map(_box, AT))}</svg>\n'
    )


def _frame() -> tuple[float, float, float, float]:
    """The place and the size of the frame."""
    places = [_place(state) for state in READS]
    (x, top), bottom = places[0], places[-1][1]
    return x - BOX_WIDTH / 2 - 10, top - BOX_HEIGHT, BOX_WIDTH + 20, bottom - top + 2 * BOX_HEIGHT


def _place(state: State) -> Point:
    column, row = AT[state]
    return LEFT + column * COLUMN, TOP + row * ROW


def _arrow(source: State | None, target: State, events: list[str]) -> str:
    (x2, y2), (frame, _, width, _) = _place(target), _frame()
    x1, y1 = (frame + width, y2) if source is None else _place(source)
    length = hypot(x2 - x1, y2 - y1)
    left = (y2 - y1) / length, (x1 - x2) / length  # of the arrow, as one sees it who goes along
    bend = max(BEND * length, LEAST_BEND)
    middle = (x1 + x2) / 2 + bend * left[0], (y1 + y2) / 2 + bend * left[1]
    if source is not None:
        x1, y1 = _border((x1, y1), middle)
    x2, y2 = _border((x2, y2), middle)
    x, y = (x1 + 2 * middle[0] + x2) / 4, (y1 + 2 * middle[1] + y2) / 4 + 4
    anchor = "middle" if abs(left[0]) < BESIDE else "start" if left[0] > 0 else "end"
    return (
        f'<path d="M{x1:.1f},{y1:.1f} Q{middle[0]:.1f},{middle[1]:.1f} {x2:.1f},{y2:.1f}" fill="none" stroke="#777" '
        f'marker-end="url(#head)"/><text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="11" '
        f'fill="#35608f" stroke="#fff" stroke-width="3" paint-order="stroke">{", ".join(events)}</text>\n'
    )


def _border(of: Point, toward: Point) -> Point:
    """The point on the edge of a box where the line from its middle to another point leaves it."""
    x, y = toward[0] - of[0], toward[1] - of[1]
    part = min(BOX_WIDTH / 2 / abs(x) if x else 9.0, BOX_HEIGHT / 2 / abs(y) if y else 9.0)
    return of[0] + part * x, of[1] + part * y


def _box(state: State) -> str:
    x, y = _place(state)
    left, top = x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2
    return (
        f'<g><title>{state.value}</title><rect x="{left:g}" y="{top:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" '
        f'rx="4" fill="#eef3f8" stroke="#35608f"/><text x="{x:g}" y="{y + 5:g}" text-anchor="middle" font-size="13" '
        f'fill="#111">{state.name}</text></g>\n'
    )


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(picture(), "utf-8")


if __name__ == "__main__":
    main()
