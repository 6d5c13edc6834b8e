"""The notebooks, run as Jupyter runs them: their commands in a shell, then their cells, one after another.

``python -m tests.docs.notebook`` writes the answers into the notebooks.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from bussrv.audit.spark.session import spark_session
from bussrv.cli.main import main

PLACE = Path(__file__).parents[2] / "docs" / "how-to"
QUESTIONS = PLACE / "audit-questions.ipynb"
OWNERS = PLACE / "spark-source.ipynb"


def read(path: Path) -> dict[str, Any]:
    """A notebook, as it is stored."""
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return notebook


def answers(notebook: dict[str, Any], directory: Path) -> Iterator[str]:
    """What each cell of code prints.

    :param directory: where it runs; must be empty.
    """
    names: dict[str, Any] = {}
    with _working_in(directory):
        for cell in notebook["cells"]:
            text = "".join(cell["source"])
            printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
            with redirect_stdout(printed):
                if cell["cell_type"] == "code":
                    exec(compile(text, "notebook", "exec"), names)
                else:
                    for command in re.findall(r"^\$ bussrv (.*)$", text, re.MULTILINE):
                        assert main(shlex.split(command)) in (0, 1), command
            if cell["cell_type"] == "code":
                printed.seek(0)
                yield printed.read()


@contextmanager
def _working_in(directory: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def stored(notebook: dict[str, Any]) -> list[str]:
    """What each cell of code printed when the notebook was written."""
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return ["".join(text for output in cell["outputs"] for text in output["text"]) for cell in code]


def _write(path: Path) -> None:
    notebook = read(path)
    with tempfile.TemporaryDirectory() as directory:
        found = answers(notebook, Path(directory))
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for number, (cell, text) in enumerate(zip(code, found, strict=True), 1):
            output = {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
            cell["execution_count"], cell["outputs"] = number, [output] if text else []
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    _write(QUESTIONS)
    with spark_session():
        _write(OWNERS)
