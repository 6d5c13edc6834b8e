"""The report in a browser: it fits, everybody can use it, names do no harm, tables are paged, and it opens at once."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bussrv.audit.fold.stripe import Period
from bussrv.audit.report.facts import facts
from bussrv.audit.report.page import PAGE, write
from bussrv.audit.report.questions import MOST
from tests.audit import report_facts
from tests.audit.large import large
from tests.browser import serious_findings, watch
from tests.size import FULL

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.processes]

MOST_SECONDS = 2.0
"""Until the page of an audit of 30 million events is painted."""

MOST_BYTES = 4_000_000

_LAYOUT = """() => {
  const root = document.documentElement;
  const sticksOut = each => each.getBoundingClientRect().right > root.clientWidth + 1 && !each.closest("caption");
  const wide = [...document.querySelectorAll("main *")].filter(sticksOut).map(each => each.outerHTML.slice(0, 80));
  const requests = performance.getEntriesByType("resource").length;
  const overlapping = [], broken = [];
  for (const times of document.querySelectorAll(".times")) {
    const ticks = [...times.children].filter(each => each.getClientRects().length);
    ticks.sort((one, two) => one.getBoundingClientRect().left - two.getBoundingClientRect().left);
    ticks.slice(1).forEach((each, at) => {
      const range = document.createRange(), before = document.createRange();
      range.selectNodeContents(each);
      before.selectNodeContents(ticks[at]);
      if (range.getBoundingClientRect().left < before.getBoundingClientRect().right) overlapping.push(each.innerText);
    });
  }
  for (const name of document.querySelectorAll("td bdi, th bdi, td code:not(.command), th code")) {
    const range = document.createRange();
    range.selectNodeContents(name);
    const lines = new Set([...range.getClientRects()].map(each => Math.round(each.bottom)));
    const word = name.textContent;
    const isPlain = word.length <= 18 && !/[\\s<>"-]/.test(word) && !name.querySelector(".odd");
    if (lines.size > 1 && isPlain) broken.push(word);
  }
  return [root.scrollWidth - root.clientWidth, wide.slice(0, 3), requests, overlapping.slice(0, 3), broken.slice(0, 3)];
}"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The addresses of reports, by the name of what they are made of."""
    root = tmp_path_factory.mktemp("reports")
    for make in (report_facts.clean, report_facts.eventful, report_facts.terrible):
        write(root / f"{make.__name__}.html", make())
    return {each.stem: each.as_uri() for each in root.iterdir()}


@pytest.mark.parametrize(
    ("report", "scheme", "widths"),
    [
        ("terrible", "light", (390, 1280)),
        pytest.param("eventful", "dark", (390, 1280), marks=pytest.mark.long),
        ("clean", "light", (390, 1000)),
    ],
)
def test_nothing_sticks_out_or_overlaps_and_everybody_can_use_it(
    chromium: Browser, reports: dict[str, str], report: str, scheme: str, widths: tuple[int, ...]
) -> None:
    """``terrible`` has names that are markup, that turn the direction of text, or have 10,000 characters. To ask axe of
    it takes seconds, and happens at full size.
    """
    with chromium.new_context(color_scheme=scheme) as context:  # type: ignore[arg-type]
        page = context.new_page()
        faults = watch(page)
        page.on("dialog", lambda dialog: faults.append(dialog.message))
        for width in widths:
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(reports[report])
            overflow, wide, requests, overlapping, broken = page.evaluate(_LAYOUT)
            assert (width, overflow, wide, requests, overlapping) == (width, 0, [], 0, [])
            # Of names that are so long and so odd, some are broken.
            assert broken == [] or report == "terrible"
        if FULL or report != "terrible":
            assert serious_findings(page) == []
        assert faults == []


def test_names_neither_run_nor_turn_the_text_around_them(page: Page, reports: dict[str, str]) -> None:
    page.goto(reports["terrible"])
    # The only script is that of the page, and no name has become an element, an image or a handler of an event.
    assert page.locator("script").count() == 1
    assert page.locator("main img, main iframe, main style, main [onerror], main [src]").count() == 0
    # No character that turns the direction of text is left; each is spelled out.
    text = page.evaluate("document.documentElement.textContent + [...document.querySelectorAll('template')]"
                         ".map(each => each.content.textContent).join()")  # fmt: skip
    assert not re.search("[\u200e\u200f\u202a-\u202e\u2066-\u2069]", text)
    assert "U+202E" in text
    # Hebrew letters are isolated: what follows a name keeps its place, to the right of it.
    isolated = page.evaluate(
        "[...document.querySelectorAll('main bdi')].every(e => getComputedStyle(e).unicodeBidi == 'isolate')"
    )
    assert isolated
    assert max(map(len, page.locator("main bdi").all_inner_texts())) < 400
    # A name stands in a command as one word, and never as an option.
    for command in page.locator(".standing .command").all_inner_texts():
        assert re.fullmatch(r"bussrv (journal (tail|verify)|timeline) [^\n]*", command), command


def test_tables_are_paged_sorted_and_searched_as_a_whole(page: Page, reports: dict[str, str]) -> None:
    page.goto(reports["terrible"])
    traffic = page.locator("#traffic")
    rows, said = traffic.locator("table.rows > tbody > tr"), traffic.locator(".pager [role=status]")
    messages = traffic.locator("tbody td[data-label=Messages]")
    # A command for all rows is there only if the page lacks some.
    assert [page.locator(f"#{each} .more").last.is_visible() for each in ("traffic", "events")] == [True, False]
    assert (rows.count(), said.inner_text().strip()) == (PAGE, "1 to 20 of 60 rows in this page")
    first = messages.all_inner_texts()
    assert traffic.get_by_role("button", name="Previous rows").is_disabled()
    traffic.get_by_role("button", name="Next rows").click()
    assert said.inner_text().strip() == "21 to 40 of 60 rows in this page"
    assert messages.all_inner_texts() != first
    # Sorting takes all rows, also those that were not shown.
    traffic.get_by_role("button", name="Messages").click()
    keys = [int(each.get_attribute("data-key") or "") for each in messages.all()]
    assert said.inner_text().startswith("1 to 20 ")
    assert keys == sorted(keys)
    assert max(keys) < int(first[-1].replace(",", ""))
    # So does the search.
    findings = page.locator(".kind", has_text="records are missing").first
    box = page.get_by_role("searchbox")
    box.fill("to that nobody has")
    assert page.locator(".finder [role=status]").inner_text() == "0 of 175 that are listed here"
    box.fill("seq-gap")
    assert page.locator(".finder [role=status]").inner_text() == "25 of 175 that are listed here"
    assert findings.locator("tbody tr").count() == PAGE
    assert re.match(
        r"60 of 90 are in this page\. All of them:\s+bussrv audit --sql ", traffic.locator(".more").inner_text()
    )


def test_without_scripts_the_first_rows_are_there(chromium: Browser, reports: dict[str, str]) -> None:
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(reports["terrible"])
        assert page.locator("#traffic table.rows > tbody > tr").count() == PAGE
        more = page.locator("#traffic .more").inner_text()
        assert re.fullmatch(
            r"20 of 90 are shown\. 60 of 90 are in this page\. All of them:\s+bussrv audit --sql .*", more, re.DOTALL
        )


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="no pdftotext here")
@pytest.mark.parametrize("report", ["clean", "eventful"])
def test_no_printed_page_ends_in_the_head_of_a_table(
    page: Page, reports: dict[str, str], report: str, tmp_path: Path
) -> None:
    page.goto(reports[report])
    page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    command = ["pdftotext", "-layout", str(tmp_path / "report.pdf"), "-"]
    pages = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split("\f")
    heads = page.evaluate("[...document.querySelectorAll('thead')].map(each => each.textContent)")
    known = {" ".join(re.findall(r"\S+", head)) for head in heads}
    last_lines = [" ".join(each.strip().splitlines()[-1].split()) for each in pages if each.strip()]
    assert len(last_lines) > 3
    assert not known & set(last_lines)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_page_of_30_million_events_opens_at_once(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    with closing(large(tmp_path)) as database:
        found = facts(database, {"version": "1", "command": "bussrv audit /srv/0", "seals": {"keys": ["k"]}}, Period())
    assert {len(each.rows) for each in (found.traffic, found.refused, found.orphans, found.leases)} == {MOST}
    write(path, found)
    assert path.stat().st_size < MOST_BYTES
    seconds = []
    for width in (390, 1280, 1280):
        with chromium.new_context(viewport={"width": width, "height": 800}) as context:
            page = context.new_page()
            begin = time.monotonic()
            page.goto(path.as_uri())
            page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            seconds.append(time.monotonic() - begin)
            assert page.evaluate("document.documentElement.scrollWidth") == width
            pressed = time.monotonic()
            page.locator("#traffic").get_by_role("button", name="Next rows").click()
            assert page.locator("#traffic .pager [role=status]").inner_text().startswith("21 to 40 of 200 ")
            assert time.monotonic() - pressed < 1
    assert min(seconds) < MOST_SECONDS, seconds
