"""The report for people: well-formed, complete, harmless, and all in one file."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.audit.findings import KINDS
from bussrv.audit.html import explain, model, text
from bussrv.audit.html.axis import DAY, HOUR, MINUTE, MOST_STEPS, MOST_TICKS, SECOND, axis_between
from bussrv.audit.html.markup import element, name, plain
from bussrv.audit.html.model import Facts, Listing
from bussrv.audit.html.page import render, write
from bussrv.events import EVENT_CLASSES, event_name
from tests.audit import html_facts

VOID = {"br", "link", "meta", "path"}
MAKERS = [html_facts.nothing, html_facts.clean, html_facts.eventful, html_facts.terrible]


class Page(HTMLParser):
    """What is in a page, if it is well-formed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({key for key, _ in attrs}) == len(attrs)
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "path"
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"style", "script"}:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def all(self, attribute: str) -> list[str]:
        return [str(attributes[attribute]) for _, attributes in self.tags if attribute in attributes]


@pytest.fixture(params=MAKERS, ids=lambda make: make.__name__)
def page(request: pytest.FixtureRequest) -> Page:
    return Page(render(request.param()))


def test_ids_are_unique_and_links_lead_somewhere(page: Page) -> None:
    ids = page.all("id")
    assert len(set(ids)) == len(ids)
    targets = {href[1:] for href in page.all("href") if href.startswith("#")}
    assert targets <= set(ids)
    assert set(page.all("aria-labelledby")) <= set(ids)


def test_nothing_is_loaded(page: Page) -> None:
    assert {href for href in page.all("href") if not href.startswith("#")} == {"data:,"}
    assert {"src", "srcset", "action", "background", "poster", "data"}.isdisjoint(
        key for _, attributes in page.tags for key in attributes
    )
    assert not any(key.startswith("on") for _, attributes in page.tags for key in attributes)
    whole = render(html_facts.eventful())
    assert "url(" not in whole
    assert "@import" not in whole
    assert "://" not in whole


def test_headings_go_down_one_by_one_and_tables_have_captions_and_heads(page: Page) -> None:
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    names = [tag for tag, _ in page.tags]
    assert names.count("table") == names.count("caption") == names.count("thead")
    assert all(attributes.get("scope") for tag, attributes in page.tags if tag == "th")
    assert all(
        attributes.get("aria-label") or attributes.get("aria-hidden") for tag, attributes in page.tags if tag == "svg"
    )


def test_the_verdict_comes_first() -> None:
    for make, word in zip(MAKERS, ("Nothing to judge", "Clean", "Findings", "Findings"), strict=True):
        found = Page(render(make()))
        assert word in found.text[:200]
    notices = Facts(records=1, kinds=(model.Kind("notice", "torn-tail", 5),))
    assert Page(render(notices)).text.startswith("Clean")
    assert "5 notices" in Page(render(notices)).text
    one = Page(render(Facts(records=1, kinds=(model.Kind("warning", "time-backwards", 1),)))).text
    assert "1 thing in them needs a look" in one


def test_every_finding_is_shown_or_counted() -> None:
    facts = html_facts.terrible()
    found = Page(render(facts))
    for kind in facts.kinds:
        assert f"{kind.number:,}" in found.text
        shown = sum(1 for each in facts.findings if (each.severity, each.kind) == (kind.severity, kind.kind))
        if kind.number > shown:
            more = (
                f"And {kind.number - shown:,} more of this kind" if shown else f"All {kind.number:,} are in the table"
            )
            assert more in found.text
    for finding in facts.findings:
        if finding.first_seq is not None:
            assert f"{finding.segment}:{finding.first_seq}" in found.text
    assert len([tag for tag, attributes in found.tags if attributes.get("data-label") == "Place"]) == len(
        facts.findings
    )


@pytest.mark.parametrize(
    ("finding", "shown"),
    [
        ({"segment": 21, "first_seq": 28, "last_seq": 28}, "21:28"),
        ({"segment": 21, "first_seq": 28, "last_seq": 31, "line": 4, "file": "/j/21.jsonl"}, "21:28–31 line 4"),
        ({"segment": 21, "line": 4}, "21 line 4"),
        ({"first_seq": 28}, "?:28"),
        ({"file": "/j/manifest", "line": 3}, "– manifest , line 3"),
        ({}, "–"),
    ],
)
def test_where_a_finding_is(finding: dict[str, object], shown: str) -> None:
    facts = Facts(
        records=1,
        kinds=(model.Kind("error", "k", 1),),
        findings=(model.Finding(severity="error", kind="k", message="m", **finding),),
    )
    assert f"Place What {shown} m" in Page(render(facts)).text


def test_nothing_is_said_in_words() -> None:
    found = Page(render(html_facts.nothing())).text
    for sentence in ("Nothing was found.", "Nobody connected.", "No lease ran out.", "Nothing was refused"):
        assert sentence in found


def test_kinds_and_events_are_explained() -> None:
    assert set(KINDS) == set(explain.KINDS)
    assert set(explain.EVENTS) == {event_name(each) for each in EVENT_CLASSES}
    assert explain.kind("never-heard-of") == ("Never heard of", "")


TEXTS = st.one_of(st.sampled_from(html_facts.NASTY), st.text(max_size=40))


@settings(max_examples=40, deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_names_of_strangers_do_no_harm(one: str, two: str, three: str) -> None:
    facts = Facts(
        version=three,
        audited=one,
        records=1,
        axis=axis_between(0, HOUR),
        keys=(one,),
        kinds=(model.Kind("error", two, 1), model.Kind("error", one + "!", 7)),
        findings=(model.Finding(severity="error", kind=two, message=one, server=two, service=three, file=one),),
        servers=Listing(
            (
                model.Server(
                    server=one, records=1, first_seq=1, last_seq=1, first_moment=0, last_moment=1, boots=1, crashes=0
                ),
            ),
            1,
        ),
        protocols=Listing(
            (
                model.Protocol(
                    protocol=two, sessions=1, closed=0, open=1, persistent=0, objects_in=0, objects_out=0, bytes_in=0,
                    bytes_out=0, most=(1,) * axis_between(0, HOUR).steps, last=(1,) * axis_between(0, HOUR).steps,
                ),
            ), 1,
        ),
        closings=Listing((model.Named(three, 1),), 1),
    )  # fmt: skip
    page = render(facts)
    page.encode()
    found = Page(page)
    usual = _usual()
    assert {tag for tag, _ in found.tags} <= {tag for tag, _ in usual.tags}
    assert [tag for tag, _ in found.tags].count("script") == 1
    known = {key for _, attributes in usual.tags for key in attributes}
    assert {key for _, attributes in found.tags for key in attributes} <= known
    for text_ in (*found.texts, *(value or "" for _, attributes in found.tags for value in attributes.values())):
        assert not re.search(
            "[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff]", text_
        )


@cache
def _usual() -> Page:
    return Page(render(html_facts.eventful()))


def test_what_cannot_be_seen_is_spelled_out() -> None:
    assert Page(name("a\u202eb")).texts == ["a", "U+202E", "b"]
    assert "(empty)" in name("")
    assert "(2 blank characters)" in name("  ")
    assert len(Page(name("x" * 9999)).text) < 200
    assert "".join(Page(name("👩‍👧")).texts) == "👩‍👧"
    assert plain("a\x00" + "b" * 200) == "a[U+0000]" + "b" * 118 + "…"
    assert element("p", '<"', title='<"&') == '<p title="&lt;&quot;&amp;">&lt;&quot;</p>'


def test_the_same_facts_are_the_same_page(tmp_path: Path) -> None:
    write(tmp_path / "report.html", html_facts.eventful())
    assert (tmp_path / "report.html").read_text("utf-8") == render(html_facts.eventful())


def test_a_report_is_small_however_bad_it_is() -> None:
    assert len(render(html_facts.terrible())) < 1_000_000


@given(st.integers(-(10**15), 10**15), st.integers(0, 10**14))
def test_the_axis_covers_what_it_is_about(begin: int, length: int) -> None:
    axis = axis_between(begin, begin + length)
    assert axis.steps <= MOST_STEPS
    assert axis.starts(0) <= begin < axis.starts(1)
    assert axis.starts(axis.steps - 1) <= axis.end < axis.starts(axis.steps)
    _, _, ticks = axis.ticks()
    assert len(ticks) <= MOST_TICKS
    assert all(0 <= axis.place(tick) < 1 for tick in ticks)
    assert sum(axis.seen(step, axis.begin, axis.end) for step in range(axis.steps)) == length


def test_steps_are_lengths_that_people_use() -> None:
    assert axis_between(0, HOUR).width == 30 * SECOND
    assert axis_between(0, DAY).width == 10 * MINUTE
    assert axis_between(0, 365 * DAY).width == 2 * DAY


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (text.size(None), "–"),
        (text.size(999), "999 B"),
        (text.size(1200), "1.2 kB"),
        (text.size(999_960), "1.0 MB"),
        (text.size(1_234_567_890), "1.2 GB"),
        (text.size(5 * 10**21), "5,000 EB"),
        (text.length(3 * 86400 + 4 * 3600 + 59), "3 d 4 h"),
        (text.length(3600), "1 h"),
        (text.length(59.96), "1 min"),
        (text.length(12.4), "12 s"),
        (text.length(1.5), "1.5 s"),
        (text.length(0.35), "350 ms"),
        (text.length(0.0002), "< 1 ms"),
        (text.length(0), "0 s"),
        (text.share(0.99996), "99.99 %"),
        (text.share(1.0), "100 %"),
        (text.share(0.5), "50.0 %"),
        (text.share(0.0001), "< 0.1 %"),
        (text.share(0), "0 %"),
        (text.moment(html_facts.BEGIN), "2026-11-18 06:00:00"),
        (text.moment(10**18), "9999-12-31 23:59:59"),
        (text.many(1, "crash", "crashes"), "1 crash"),
        (text.many(1234, "crash", "crashes"), "1,234 crashes"),
    ],
)
def test_numbers_are_for_people(shown: str, expected: str) -> None:
    assert shown.replace("\N{NO-BREAK SPACE}", " ") == expected


def _browser() -> str | None:
    return shutil.which("chromium") or shutil.which("google-chrome")


_PROBE = """<script>
addEventListener("load", () => setTimeout(() => {
  const inner = document.querySelector("iframe").contentWindow, page = inner.document, root = page.documentElement;
  const sticksOut = each => each.getBoundingClientRect().right > root.clientWidth + 1 && !each.closest("caption");
  const wide = [...page.querySelectorAll("main *")].filter(sticksOut).map(each => each.outerHTML.slice(0, 80));
  const requests = inner.performance.getEntriesByType("resource").length;
  const isSortable = page.querySelectorAll("thead button").length > 0;
  document.title = JSON.stringify([root.scrollWidth - root.clientWidth, wide.slice(0, 3), requests, isSortable]);
  document.querySelector("iframe").remove();
}, 300));
</script>"""


@pytest.mark.skipif(_browser() is None, reason="no Chromium here")
@pytest.mark.parametrize("make", [html_facts.terrible, html_facts.eventful], ids=lambda make: make.__name__)
def test_on_a_narrow_screen_nothing_sticks_out_and_nothing_is_requested(
    make: Callable[[], Facts], tmp_path: Path
) -> None:
    write(tmp_path / "report.html", make())
    frame = '<iframe src="report.html" style="width:390px;height:900px;border:0"></iframe>'
    (tmp_path / "probe.html").write_text(f"<!doctype html><title></title>{frame}{_PROBE}")
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom")
    ended = subprocess.run(
        [str(_browser()), *options, f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000",
         (tmp_path / "probe.html").as_uri()],
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    found = re.search("<title>(.*?)</title>", ended.stdout, re.DOTALL)
    assert found is not None
    assert found[1] == "[0,[],0,true]"
