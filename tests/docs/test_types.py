"""The programs of the pages on clients have correct types."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks

pytestmark = pytest.mark.processes


PYRIGHT = shutil.which("pyright")


def programs(directory: Path) -> list[Path]:
    """Write the programs of both pages into files."""
    for name in ("clients", "client-recipes"):
        for number, block in enumerate(blocks(f"docs/how-to/{name}.md", "python"), 1):
            (directory / f"{name.replace('-', '_')}_{number}.py").write_text(block)
    found = sorted(directory.iterdir())
    assert len(found) == 22
    return found


def check(command: list[str], directory: Path) -> None:
    checked = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.long
def test_the_types_of_programs_are_correct(tmp_path: Path) -> None:
    """As their readers would check them: without the settings of this project."""
    programs(tmp_path)
    cache = f"--cache-dir={ROOT / '.mypy_cache/docs'}"
    # Twisted has untyped functions.
    options = ["--strict", "--allow-untyped-calls", "--config-file=", "--python-version=3.10", cache]
    check([sys.executable, "-m", "mypy", *options, str(tmp_path)], tmp_path)


@pytest.mark.long
@pytest.mark.skipif(PYRIGHT is None, reason="pyright is not installed (npm install --global pyright)")
def test_pyright_finds_them_correct_as_well(tmp_path: Path) -> None:
    assert PYRIGHT is not None
    # Types that Twisted leaves unknown are no fault in the standard mode.
    strict = [each.name for each in programs(tmp_path) if "twisted" not in each.read_text()]
    assert len(strict) == 21
    settings = {"strict": strict, "pythonVersion": "3.10", "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    check([PYRIGHT, "--pythonpath", sys.executable], tmp_path)
