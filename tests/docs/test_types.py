"""The programs of the pages on clients have correct types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks

pytestmark = pytest.mark.processes


def test_the_types_of_programs_are_correct(tmp_path: Path) -> None:
    """As their readers would check them: without the settings of this project."""
    for name in ("clients", "client-recipes"):
        for number, block in enumerate(blocks(f"docs/how-to/{name}.md", "python"), 1):
            (tmp_path / f"{name.replace('-', '_')}_{number}.py").write_text(block)
    assert len(list(tmp_path.iterdir())) == 21
    cache = f"--cache-dir={ROOT / '.mypy_cache/docs'}"
    options = [
        "--strict",
        "--allow-untyped-calls",
        "--config-file=",
        "--python-version=3.10",
        cache,
    ]  # Twisted has untyped ones
    mypy = [sys.executable, "-m", "mypy", *options, str(tmp_path)]
    checked = subprocess.run(mypy, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
