"""What ``bussrv.plugin`` promises is documented, listed, and changes only with the news.

``python docs/_ext/plugin_contract.py FRAGMENT`` writes the page and the listing.
"""

import runpy
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bussrv import plugin
from bussrv.contract import names as heavy
from tests.docs.pages import ROOT

MADE = runpy.run_path(str(ROOT / "docs/_ext/plugin_contract.py"))
CHANGES = (ROOT / "CHANGES.md").read_text("utf-8")


def unlike_the_code(kept: str, now: str) -> Iterator[str]:
    """What a listing says otherwise than the code."""
    before, after = kept.splitlines(), now.splitlines()
    if before != after:
        yield "changed: write a news fragment and update the listing (python docs/_ext/plugin_contract.py FRAGMENT):"
        yield from (f"- {each.strip()}" for each in before if each not in after)
        yield from (f"+ {each.strip()}" for each in after if each not in before)


def untold(history: Iterable[Any], kept: str, fragments: Path, changes: str) -> Iterator[str]:
    """Changes of a listing that no news tell of."""
    history = list(history)
    if not history or history[-1].digest != MADE["digest"](kept):
        yield "the last line of the history is of another listing: a change of it has no news fragment"
    for column in ("digest", "fragment", "sentence"):
        if len({getattr(each, column) for each in history}) < len(history):
            yield f"two changes have the same {column}"
    for each in history:
        file = fragments / f"{each.fragment}.md"
        if each.sentence not in (file.read_text("utf-8") if file.exists() else changes):
            yield f"neither {file.name} nor CHANGES.md says: {each.sentence}"


def test_the_listing_is_what_the_code_promises() -> None:
    assert list(unlike_the_code(MADE["listed"]()[1], MADE["names"]())) == []


def test_every_change_of_the_listing_is_in_the_news() -> None:
    assert list(untold(*MADE["listed"](), MADE["FRAGMENTS"], CHANGES)) == []


def test_a_change_of_a_signature_is_found() -> None:
    kept = MADE["names"]()
    changed = kept.replace("    personal(frame: bytes) -> bytes\n", "    personal(frame: bytes, more: int) -> bytes\n")
    _, *found = unlike_the_code(kept, changed)
    assert found == ["- personal(frame: bytes) -> bytes", "+ personal(frame: bytes, more: int) -> bytes"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([("old", "1.feature.1", "One")], "the last line of the history is of another listing"),
        ([("now", "1.feature.2", "Two")], "neither 1.feature.2.md nor CHANGES.md says: Two"),
        ([("now", "1.feature.1", "Two")], "neither 1.feature.1.md nor CHANGES.md says: Two"),
        ([("old", "1.feature.1", "One"), ("now", "1.feature.1", "One")], "two changes have the same fragment"),
        ([("old", "0.feature.1", "Zero"), ("now", "1.feature.1", "One")], ""),
    ],
    ids=["changed again", "no fragment", "another fragment", "the same fragment", "released, then changed"],
)
def test_a_change_without_news_is_found(lines: list[tuple[str, ...]], said: str, tmp_path: Path) -> None:
    (tmp_path / "1.feature.1.md").write_text("One. And more.\n")
    now = MADE["digest"]("now")
    history = [MADE["Told"](now if digest == "now" else digest, *others) for digest, *others in lines]
    found = list(untold(history, "now", tmp_path, "- Zero. (#0)\n"))
    assert [each for each in found if said in each] if said else not found


def test_the_page_has_every_name_and_is_current() -> None:
    page = MADE["PAGE"].read_text("utf-8")
    assert MADE["with_names"](page) == page
    assert sorted(MADE["promised"]()) == sorted(plugin.__all__)


def test_every_name_and_member_is_documented() -> None:
    found = {each: MADE["documentation"](each) for each in plugin.__all__}
    found |= {f"{each}.{member.name}": member.text for each in plugin.__all__ for member in MADE["members"](each)}
    assert len(found) > 250
    assert [each for each, text in found.items() if not text] == []


def test_every_name_is_there_and_no_heavy_one_is_left_out() -> None:
    assert [each for each in plugin.__all__ if getattr(plugin, each, None) is None] == []
    assert {each for each in vars(heavy) if not each.startswith("_")} <= {*plugin.__all__}
    with pytest.raises(AttributeError, match="has no attribute 'Bus'"):
        _ = plugin.Bus  # type: ignore[attr-defined]
