"""News fragments: towncrier passes over those it does not understand, so their names are checked here."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
FRAGMENTS = ROOT / "newsfragments"
NOT_FRAGMENTS = {".gitkeep"}

CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
KINDS = [kind["directory"] for kind in CONFIG["type"]]
NAME = re.compile(rf"(\d+|\+[a-z0-9-]+)\.({'|'.join(KINDS)})(\.\d+)?\.md")


def present_fragments() -> list[Path]:
    return sorted(path for path in FRAGMENTS.iterdir() if path.name not in NOT_FRAGMENTS)


def draft(directory: Path) -> str:
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "0"]
    return subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("name", ["1.bugfix.md", "12.feature.2.md", "+slow-disk.doc.md"])
def test_names_that_are_fragments(name: str) -> None:
    assert NAME.fullmatch(name)


@pytest.mark.parametrize("name", ["1.fix.md", "slow-disk.doc.md", "1.bugfix", "1.bugfix.rst", "bugfix.md"])
def test_names_that_are_not(name: str) -> None:
    assert not NAME.fullmatch(name)


def test_every_fragment_has_a_name_that_counts() -> None:
    assert [path.name for path in present_fragments() if not NAME.fullmatch(path.name)] == []


def test_things_that_no_longer_work_come_first() -> None:
    """The page on upgrades says so."""
    assert KINDS[0] == "removal"
    versions = (ROOT / "CHANGES.md").read_text(encoding="utf-8").split("\n## ")[1:]
    headings = [re.findall(r"^### (\w+)", version, re.MULTILINE) for version in versions]
    assert all("Removals" not in each[1:] for each in headings)
    assert ["Removals" in each for each in headings][-1]


@pytest.mark.processes
def test_every_fragment_is_in_the_draft() -> None:
    text = draft(ROOT)
    for path in present_fragments():
        first_line = path.read_text(encoding="utf-8").strip().splitlines()[0]
        assert first_line in text, path.name


@pytest.mark.processes
def test_every_kind_has_its_heading_and_goes_below_the_marker(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copy(ROOT / "CHANGES.md", tmp_path)
    (tmp_path / "newsfragments").mkdir()
    for kind in KINDS:
        (tmp_path / "newsfragments" / f"7.{kind}.md").write_text(f"What the {kind} is.\n", encoding="utf-8")
    text = draft(tmp_path)
    for kind in CONFIG["type"]:
        assert f"### {kind['name']}\n\n- What the {kind['directory']} is. (#7)" in text
    assert CONFIG["start_string"] in (ROOT / "CHANGES.md").read_text(encoding="utf-8")
