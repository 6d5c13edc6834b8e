"""The report for people: well-formed, complete, harmless, and all in one file."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jinja2 import UndefinedError

from bussrv.audit import kinds
from bussrv.audit.report import activity, journals, text
from bussrv.audit.report.charts import (
    DAY,
    GAP,
    HOUR,
    MINUTE,
    MOST_STEPS,
    MOST_TICKS,
    NARROW,
    SECOND,
    WIDE,
    Label,
    axis_between,
    fitting,
)
from bussrv.audit.report.facts import Facts
from bussrv.audit.report.page import PAGE, TEMPLATES, environment, render, write
from bussrv.audit.report.questions import Listing
from bussrv.audit.report.text import plain
from bussrv.events import EVENT_CLASSES, event_name
from bussrv.incidents.amounts import length, many
from tests.audit import report_facts
from tests.size import sized
from tests.tables import each_row

pytestmark = pytest.mark.dear

VOID = {"br", "link", "meta", "path"}
MAKERS = [report_facts.nothing, report_facts.clean, report_facts.eventful, report_facts.terrible]


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


@cache
def page_of(make: Callable[[], Facts]) -> Page:
    return Page(render(make()))


@pytest.fixture(params=MAKERS, ids=lambda make: make.__name__)
def page(request: pytest.FixtureRequest) -> Page:
    return page_of(request.param)


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
    whole = render(report_facts.eventful())
    assert "url(" not in whole
    assert "@import" not in whole
    assert "://" not in whole


def test_headings_go_down_one_by_one_and_tables_have_captions(page: Page) -> None:
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
    for make, word in zip(
        MAKERS, ("Nothing to judge", "Journal intact", "Findings, 12 incidents", "Findings, 12 incidents"), strict=True
    ):
        found = page_of(make)
        assert word in found.text[:200]
    notices = Facts(records=1, kinds=(journals.KindCount("notice", "torn-tail", 5),))
    text_ = Page(render(notices)).text
    assert text_.startswith("Journal intact")
    assert "5 notices" in text_
    one = Page(render(Facts(records=1, kinds=(journals.KindCount("warning", "time-backwards", 1),)))).text
    assert "1 finding needs a look" in one


def test_every_finding_is_shown_or_counted() -> None:
    facts, found = report_facts.terrible(), page_of(report_facts.terrible)
    for kind in facts.kinds:
        assert f"{kind.number:,}" in found.text
        shown = sum(1 for each in facts.findings if (each.severity, each.kind) == (kind.severity, kind.kind))
        at_first = min(shown, PAGE)
        if kind.number > at_first:
            in_page = f" {shown:,} of {kind.number:,} are in this page." if kind.number > shown > at_first else ""
            told = f"{at_first:,} of {kind.number:,} are shown.{in_page} All of them: bussrv audit --sql "
            assert told in found.text
    for finding in facts.findings:
        if finding.first_seq is not None:
            assert f"{finding.segment}:{finding.first_seq}" in found.text
    assert len([tag for tag, attributes in found.tags if attributes.get("data-label") == "Place"]) == len(
        facts.findings
    )


@each_row(
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
        kinds=(journals.KindCount("error", "k", 1),),
        findings=(journals.FindingRow(severity="error", kind="k", message="m", **finding),),
    )
    assert f"Place Time Finding {shown} – m" in Page(render(facts)).text


def test_nothing_is_said_in_words() -> None:
    found = page_of(report_facts.nothing).text
    for sentence in ("Nothing was found.", "No client connected.", "No lease ran out.", "Nothing was refused"):
        assert sentence in found


def test_who_was_away_is_told_in_words() -> None:
    found = page_of(report_facts.eventful).text
    assert "Left at Came back at Away for Why it left" in found
    for words in ("✕ as another user", "not back, closed at 2026-11-18", "still away, kept until 2026-11-22"):
        assert words in found


def test_kinds_and_events_are_explained() -> None:
    assert set(kinds.KINDS) == set(kinds.MEANINGS)
    assert set(kinds.EVENTS) == {event_name(each) for each in EVENT_CLASSES}
    assert kinds.meaning("never-heard-of") == ("Never heard of", "")


TEXTS = st.one_of(st.sampled_from(report_facts.NASTY), st.text(max_size=40))


@settings(max_examples=sized(120))
@given(TEXTS, TEXTS, TEXTS)
def test_names_of_strangers_do_no_harm(one: str, two: str, three: str) -> None:
    facts = Facts(
        version=three,
        audited=one,
        records=1,
        axis=axis_between(0, HOUR),
        keys=(one,),
        kinds=(journals.KindCount("error", two, 1), journals.KindCount("error", one + "!", 7)),
        findings=(journals.FindingRow(severity="error", kind=two, message=one, server=two, service=three, file=one),),
        servers=Listing(
            (
                journals.Server(
                    server=one, records=1, first_seq=1, last_seq=1, first_moment=0, last_moment=1, boots=1, crashes=0
                ),
            ),
            1,
        ),
        protocols=Listing(
            (
                activity.Protocol(
                    protocol=two, sessions=1, closed=0, open=1, away=0, persistent=0, objects_in=0, objects_out=0,
                    bytes_in=0, bytes_out=0, most=(1,) * axis_between(0, HOUR).steps,
                    last=(1,) * axis_between(0, HOUR).steps,
                ),
            ), 1,
        ),
        closings=Listing((activity.Named(three, 1),), 1),
    )  # fmt: skip
    page = render(facts)
    page.encode()
    found = Page(page)
    usual = page_of(report_facts.eventful)
    assert {tag for tag, _ in found.tags} <= {tag for tag, _ in usual.tags}
    assert [tag for tag, _ in found.tags].count("script") == 1
    known = {key for _, attributes in usual.tags for key in attributes}
    assert {key for _, attributes in found.tags for key in attributes} <= known
    for text_ in (*found.texts, *(value or "" for _, attributes in found.tags for value in attributes.values())):
        assert not re.search(
            "[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff]", text_
        )


def name(text_: str) -> str:
    macros: Any = environment().get_template("macros.html").module
    return str(macros.name(text_))


def test_invisible_characters_are_spelled_out() -> None:
    assert Page(name("a\u202eb")).texts == ["a", "U+202E", "b"]
    assert "(empty)" in name("")
    assert "(2 blank characters)" in name("  ")
    assert len(Page(name("x" * 9999)).text) < 200
    assert "".join(Page(name("👩‍👧")).texts) == "👩‍👧"
    assert plain("a\x00" + "b" * 200) == "a[U+0000]" + "b" * 118 + "…"


def test_every_value_in_a_template_is_escaped_and_spelled_out() -> None:
    template = environment().from_string('<p title="{{ value }}">{{ value }}</p>')
    spelled = "&lt;&#34;&amp;[U+202E]"
    assert template.render(value='<"&\u202e') == f'<p title="{spelled}">{spelled}</p>'
    with pytest.raises(UndefinedError):
        environment().from_string("{{ valeu }}").render(value=1)


def test_the_policy_allows_the_script_and_nothing_else() -> None:
    page = render(report_facts.nothing())
    (script,) = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [value for value in Page(page).all("content") if value.startswith("default-src")]
    assert policy.startswith(
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}';"
    )


@each_row("file", ["page.css", "page.js"])
def test_style_and_script_do_not_end_early(file: str) -> None:
    """They stand in the page as they are, so that no character in them may look like markup."""
    assert "</" not in (TEMPLATES / file).read_text("utf-8")
    assert "<!--" not in (TEMPLATES / file).read_text("utf-8")


def test_the_same_facts_are_the_same_page(tmp_path: Path) -> None:
    write(tmp_path / "report.html", report_facts.eventful())
    assert (tmp_path / "report.html").read_text("utf-8") == render(report_facts.eventful())


def test_a_report_is_small_however_bad_it_is() -> None:
    assert len(render(report_facts.terrible())) < 1_000_000


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


ROUNDING = 1e-6
"""How much floating-point sums may differ, in the height of a line: far less than can be seen."""


@given(st.integers(-(10**15), 10**15), st.integers(0, 10**14), st.floats(0, 100))
@example(0, 1000, 37.91746448892049)
def test_what_is_written_below_an_axis_does_not_overlap(begin: int, length: int, longer: float) -> None:
    """Neither on the narrowest screen nor on any wider one; and something is written."""
    axis = axis_between(begin, begin + length)
    width, _, ticks = axis.ticks()
    dates = itertools.chain(["21 Nov"], itertools.repeat(None))
    chosen = [Label(axis.place(tick), text.clock(tick, width), date) for tick, date in zip(ticks, dates, strict=False)]
    for shortest in (WIDE, NARROW):
        chosen = fitting(chosen, shortest)
        assert chosen or not ticks
        spans = sorted(label.span(shortest + longer) for label in chosen)
        assert all(0 <= left <= right <= shortest + longer + ROUNDING for left, right in spans)
        assert all(right + GAP <= left + ROUNDING for (_, right), (left, _) in itertools.pairwise(spans))


def test_steps_are_lengths_that_people_use() -> None:
    assert axis_between(0, HOUR).width == 30 * SECOND
    assert axis_between(0, DAY).width == 10 * MINUTE
    assert axis_between(0, 365 * DAY).width == 2 * DAY


@each_row(
    ("shown", "expected"),
    [
        (text.size(None), "–"),
        (text.size(999), "999 B"),
        (text.size(1200), "1.2 kB"),
        (text.size(999_960), "1.0 MB"),
        (text.size(1_234_567_890), "1.2 GB"),
        (text.size(5 * 10**21), "5,000 EB"),
        (length(3 * 86400 + 4 * 3600 + 59), "3 d 4 h"),
        (length(3600), "1 h"),
        (length(59.96), "1 min"),
        (length(12.4), "12 s"),
        (length(1.5), "1.5 s"),
        (length(0.35), "350 ms"),
        (length(0.0002), "< 1 ms"),
        (length(0), "0 s"),
        (text.share(0.99996), "99.99 %"),
        (text.share(1.0), "100 %"),
        (text.share(0.5), "50.0 %"),
        (text.share(0.0001), "< 0.1 %"),
        (text.share(0), "0 %"),
        (text.moment(report_facts.BEGIN), "2026-11-18 06:00:00"),
        (text.moment(10**18), "9999-12-31 23:59:59"),
        (many(1, "crash", "crashes"), "1 crash"),
        (many(1234, "crash", "crashes"), "1,234 crashes"),
    ],
)
def test_numbers_are_for_people(shown: str, expected: str) -> None:
    assert shown.replace("\N{NO-BREAK SPACE}", " ") == expected
