"""The report as one HTML file that needs nothing else: no other file, no network, no JavaScript."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

from bussrv.audit.html import text, trouble
from bussrv.audit.html.found import findings, seals
from bussrv.audit.html.markup import Html, element, html
from bussrv.audit.html.model import Facts
from bussrv.audit.html.presence import clients, servers, traffic
from bussrv.audit.html.provision import links, services
from bussrv.audit.html.script import SCRIPT
from bussrv.audit.html.style import STYLE
from bussrv.audit.html.verdict import audited, banner, numbers, title

_CHAPTERS: tuple[tuple[str, str, Callable[[Facts], Iterator[Html]]], ...] = (
    ("findings", "Findings", findings),
    ("seals", "What vouches for the journals", seals),
    ("servers", "Servers", servers),
    ("clients", "Who was there", clients),
    ("services", "Services", services),
    ("refusals", "Turned away", trouble.refusals),
    ("links", "Links and leases", links),
    ("traffic", "Who talked most", traffic),
    ("events", "Everything that was recorded", trouble.events),
    ("words", "Words used here", lambda _: trouble.words()),
)


def render(facts: Facts) -> str:
    """The report. The same facts always give the same text."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        # Even what got past the escaping could load nothing and run nothing.
        element("meta", http_equiv="Content-Security-Policy", content=_policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"bussrv {facts.version}".strip()),
        element("title", f"{title(facts)}: bussrv audit"),
        element("link", rel="icon", href="data:,"),
        element("style", Html(STYLE)),
    )
    body = element(
        "body",
        element("a", "To the findings", href="#findings", class_="skip"),
        element("header", element("p", element("b", "bussrv audit"), _when(facts), class_="brand")),
        element("main", *_content(facts), **_axis(facts)),
        element("footer", _footer(facts)),
        element("script", Html(SCRIPT)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def write(path: Path, facts: Facts) -> None:
    """Write the report to a file.

    :raises OSError: if it cannot be written.
    """
    path.write_text(render(facts), encoding="utf-8", newline="\n")


def _content(facts: Facts) -> Iterator[Html]:
    yield banner(facts)
    yield audited(facts)
    yield _contents(facts)
    for id_, heading, chapter in _CHAPTERS:
        yield element(
            "section", element("h2", heading, id=f"{id_}-heading"), *chapter(facts), id=id_, class_="chapter",
            aria_labelledby=f"{id_}-heading",
        )  # fmt: skip


def _contents(facts: Facts) -> Html:
    found = sum(numbers(facts).values())
    counts = {"findings": found, "services": facts.service_totals.known, "servers": facts.servers.total}
    items = [
        element(
            "li",
            element("a", heading, href=f"#{id_}"),
            element("small", text.number(counts[id_])) if id_ in counts else None,
        )
        for id_, heading, _ in _CHAPTERS
    ]
    return element("nav", element("ul", *items), aria_label="Chapters")


def _when(facts: Facts) -> Html:
    return element("span", f"audited {facts.audited}") if facts.audited else html()


def _footer(facts: Facts) -> Html:
    version = f"bussrv {facts.version}" if facts.version else "bussrv"
    return element(
        "p",
        f"Written by {version}. All times are UTC; sizes are in powers of 1,000. What is cut short here is in full in "
        "the Parquet tables beside this file, in ",
        element("code", "tables/"),
        "; the verdict for programs is in ",
        element("code", "summary.json"),
        ".",
    )


def _axis(facts: Facts) -> dict[str, str | None]:
    if facts.axis is None:
        return {}
    return {"data_origin": str(facts.axis.origin), "data_width": str(facts.axis.width)}


def _policy() -> str:
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    script = f"script-src 'sha256-{digest}'"
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; {script}; base-uri 'none'; form-action 'none'"
    )
