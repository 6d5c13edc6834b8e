"""All servers show in one view, with every link between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from bussrv.testing.server import RunningServer
from tests.admin.dashboard.conftest import OPTIONS, address
from tests.browser import serious_findings
from tests.forked import ForkedServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

LINKS = ["--link-allow", "127.0.0.0/8"]


@pytest.fixture(scope="module")
def triangle() -> Iterator[RunningServer]:
    """A server that is linked with two others, which are linked with each other. It asks one of them."""
    with ForkedServer("off", [*LINKS, "--server-id", "attic"]) as attic:
        to_attic = f"tcp:127.0.0.1:{attic.port('objects')}"
        with ForkedServer("off", [*LINKS, "--server-id", "cellar", "--link", to_attic]) as cellar:
            links = [each for other in (attic, cellar) for each in ("--link", f"tcp:127.0.0.1:{other.port('objects')}")]
            asked = ["--admin-peer", f"http://127.0.0.1:{attic.port('admin')}"]
            with ForkedServer("off", [*OPTIONS, *LINKS, *links, *asked, "--server-id", "hall"]) as hall:
                yield hall


def test_a_triangle_of_servers_shows_three_links(page: Page, triangle: RunningServer) -> None:
    """With two neighbours, no server is drawn on the line between the others."""
    page.goto(address(triangle, "servers"))
    page.locator(".graph .edge.up").nth(2).wait_for(state="attached")
    ends = page.eval_on_selector_all(
        ".graph .edge", "edges => edges.map(e => ['x1', 'y1', 'x2', 'y2'].map(name => Number(e.getAttribute(name))))"
    )
    (x, y), *_ = places = sorted({(each[0], each[1]) for each in ends} | {(each[2], each[3]) for each in ends})
    assert len(places) == 3
    (left, top), (right, bottom) = ((one - x, other - y) for one, other in places[1:])
    assert abs(left * bottom - right * top) > 1000
    row = page.get_by_role("row").filter(has_text="attic")
    assert "ready" in row.inner_text()
    assert "not asked" in page.get_by_role("row").filter(has_text="cellar").inner_text()
    assert page.locator(".view-head .amount").inner_text().startswith("3 servers, ")
    assert serious_findings(page) == []
