"""The documentation as a site: it is built without a warning, its search finds the page one means, and its buttons copy
the commands of a session without what they print.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.browser import served
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(600)]

MEANT = {
    **dict.fromkeys(("backup", "restore", "disk full"), "how-to/disaster"),
    **dict.fromkeys(("docker", "kubernetes", "compose", "helm"), "how-to/container"),
    **dict.fromkeys(("users", "token"), "how-to/users"),
    **dict.fromkeys(("audit",), "how-to/audit"),
    **dict.fromkeys(("install", "systemd"), "how-to/run"),
    **{each: f"how-to/{each}" for each in ("upgrade", "nats", "kafka", "dashboard", "tap", "policy", "incidents")},
    "renew certificate": "how-to/expose",
    "links": "how-to/link-servers",
    "home assistant": "how-to/home-assistant",
    "python client": "how-to/clients",
    "javascript": "how-to/other-languages",
    "plugin": "how-to/plugins",
    "timeline": "reference/audit/timeline",
    "metrics": "reference/metrics",
    "prometheus": "how-to/monitor",
    "max-sessions": "reference/options",
    "mqtt": "reference/protocols/mqtt",
    "verify": "reference/journal-tools",
    "journal format": "reference/journal-format/index",
    "error codes": "errors",
    "slow-consumer": "errors",
    "performance": "explanation/performance",
    "glossary": "reference/glossary",
}
"""What somebody asks, and the page that should be among the first three."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the built pages."""
    place = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "docs", str(place)]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")
    with served(place) as port:
        yield f"http://127.0.0.1:{port}"


def test_the_pages_can_be_built_without_a_warning(site: str) -> None:
    assert site


def test_a_search_finds_the_page_one_means(site: str, page: Page) -> None:
    found = {}
    for asked, meant in MEANT.items():
        page.goto(f"{site}/search.html?q={quote(asked)}")
        page.wait_for_function("/search finished|did not match/i.test(document.body.innerText)")
        links = page.eval_on_selector_all("#search-results li > a", "all => all.map(each => each.getAttribute('href'))")
        pages = dict.fromkeys(each.split("#")[0].split("?")[0].removesuffix(".html") for each in links)
        if meant not in [*pages][:3]:
            found[asked] = [*pages][:4]
    assert found == {}


def copied(page: Page, block: Locator) -> str:
    """The text that the button of a block puts into the clipboard."""
    page.evaluate("document.addEventListener('copy', () => { window.copied = document.activeElement.value; })")
    block.hover()
    block.locator("button.copybtn").click()
    found = page.evaluate("window.copied")
    assert isinstance(found, str)
    return found


def test_the_first_page_has_a_picture_and_a_command_to_copy(site: str, page: Page) -> None:
    page.goto(f"{site}/index.html")
    assert page.locator("img[src*=dashboard]").evaluate("each => each.naturalWidth") > 500
    block = page.locator("div.highlight", has_text="make run")
    assert copied(page, block) == "make run"


def test_a_button_copies_commands_without_their_output(site: str, page: Page) -> None:
    page.goto(f"{site}/how-to/upgrade.html")
    block = page.locator("div.highlight", has_text="bussrv journal verify bussrv-journal --sealed")
    assert "OK" in block.inner_text()
    assert copied(page, block) == "bussrv journal verify bussrv-journal --sealed"
