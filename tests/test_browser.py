"""The browser of the tests sees what a page does wrong; a fixture that sees nothing would pass everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser import serious_findings, watch

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.processes

POOR = """<!doctype html><html><title>Poor</title><style>p {color: #eee; background: #fff}</style>
<p>This cannot be read.</p><button></button><script>console.error("said"); throw new Error("thrown")</script>"""

GOOD = """<!doctype html><html lang="en"><title>Good</title><main><h1>Good</h1><button>Press</button></main>"""


def test_faults_of_scripts_and_of_access_are_found(page: Page) -> None:
    other = page.context.new_page()
    faults = watch(other)
    other.set_content(POOR)
    assert faults == ["said", "thrown"]
    assert {finding.partition(":")[0] for finding in serious_findings(other)} >= {"button-name", "color-contrast"}


def test_nothing_is_found_in_a_good_page(page: Page) -> None:
    page.set_content(GOOD)
    page.get_by_role("button", name="Press").click()
    assert serious_findings(page) == []
