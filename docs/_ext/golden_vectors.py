"""The directive ``golden-vectors``: shows the messages that the tests of a wire format hold it to, byte for byte.

Its argument is the name of a file of ``tests/vectors`` without its ending. Malformed messages are listed with
the code that they are refused for.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

VECTORS = Path(__file__).parents[2] / "tests/vectors"
LONGEST = 240


class GoldenVectors(Directive):
    """A definition list: the name of each vector, and its bytes."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The list."""
        path = VECTORS / f"{self.arguments[0]}.json"
        self.state.document.settings.record_dependencies.add(str(path))
        shown = nodes.definition_list()
        for vector in json.loads(path.read_text())["vectors"]:
            text = message(vector)
            if text is not None and len(text) <= LONGEST:
                term = nodes.term("", title(vector))
                shown += nodes.definition_list_item("", term, nodes.definition("", nodes.literal_block(text, text)))
        return [shown]


def title(vector: dict[str, Any]) -> str:
    """The name of a vector, and what it is refused for."""
    error = vector.get("error")
    reason = error["reason"] if isinstance(error, dict) else error
    return f"{vector['name']}: {reason}" if reason else str(vector["name"])


def message(vector: dict[str, Any]) -> str | None:
    r"""The bytes of a vector for people: text with ``\0`` for NUL, or hexadecimal in groups of four bytes.

    ``None`` for one that is described by its parts, because it is too long to be written out.
    """
    direction = {"client": "-> ", "server": "<- "}.get(vector.get("side", ""), "")
    arrow = f"{vector['direction']} " if "direction" in vector else direction
    if "text" in vector:
        return arrow + str(vector["text"]).replace("\0", "\\0")
    return None if "text_parts" in vector else arrow + bytes.fromhex(vector["hex"]).hex(" ", -4)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("golden-vectors", GoldenVectors)
    return {"parallel_read_safe": True}
