"""The dashboard in a real browser, at a real server."""

from __future__ import annotations

import json
import re
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from bussrv.audit.job import audit
from bussrv.client.objects import ObjectsClient
from bussrv.errors import REASONS
from bussrv.journal.record import format_time
from bussrv.registry.state.naming import called
from bussrv.synth.journal import write_journal
from tests.admin.dashboard.conftest import LONG, MARKUP, OPTIONS, REVERSED, address
from tests.admin.test_tap import actions
from tests.browser import serious_findings
from tests.end_to_end.cables import reserve_port
from tests.forked import ForkedServer
from tests.registry.state.test_naming import CASES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

    from bussrv.testing.server import RunningServer

pytestmark = pytest.mark.processes

VIEWS = (
    "Sessions",
    "Services",
    "Busiest",
    "Links",
    "Servers",
    "Tap",
    "Incidents",
    "Slow",
    "Closed",
    "Denied",
    "Events",
    "Why",
    "Past",
    "Journal",
    "Limits",
    "Server",
)


def go(page: Page, view: str) -> None:
    link = page.get_by_role("navigation").get_by_role("link", name=re.compile(rf"^{view}\b"))
    link.first.click()


@contextmanager
def foreign_page(body: str) -> Iterator[int]:
    """A page of another site. :returns: its port at this machine."""

    class Served(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is given
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Served) as served:
        thread = Thread(target=served.serve_forever)
        thread.start()
        yield served.server_port
        served.shutdown()
        thread.join()


FOREIGN = """<link rel=stylesheet href=/x><img src=%(to)sapi/v1/tap?payload=1 onerror="document.title += '.'">
<iframe src=%(to)sapi/v1/live></iframe><script>
fetch("%(to)sapi/v1/tap", {mode: "no-cors"}).catch(() => 0).then(() => document.title += ".");
fetch("%(to)sapi/v1/tap", {headers: {"Content-Type": "application/json"}}).catch(() => document.title += ".");
</script>"""


@pytest.mark.long
def test_a_page_of_another_site_opens_no_tap(chromium: Browser, tmp_path: Path) -> None:
    """What ``test_site.py`` tests without a browser."""
    with ForkedServer(tmp_path / "journal", OPTIONS) as server:
        with foreign_page(FOREIGN % {"to": address(server)}) as port, chromium.new_context() as context:
            for host in ("localhost", "127.0.0.1"):
                page = context.new_page()
                page.goto(f"http://{host}:{port}/", wait_until="commit")
                page.wait_for_function("document.title === '...'")
        assert server.stop() == 0
    assert actions(tmp_path / "journal") == []


def test_every_view_opens(dashboard: Page) -> None:
    """And everybody can use what is around them; the long tests ask that of each view."""
    for view in VIEWS:
        go(dashboard, view)
        dashboard.get_by_role("heading", level=1, name=view).wait_for()
    assert serious_findings(dashboard) == []


def test_sessions_are_listed_and_filtered(new_dashboard: Page) -> None:
    go(new_dashboard, "Sessions")
    table = new_dashboard.get_by_role("grid", name="Sessions")
    table.get_by_role("row", name="carl (claimed) objects").filter(has_text="doorbell").wait_for()
    new_dashboard.keyboard.press("/")
    new_dashboard.keyboard.type("cell")
    table.get_by_role("row").filter(has_text="doorbell").wait_for(state="detached")
    assert table.get_by_role("row").count() == 2
    assert "pump" in table.get_by_role("row").nth(1).inner_text()


def test_a_row_opens_with_the_keyboard_and_focus_returns(dashboard: Page) -> None:
    go(dashboard, "Services")
    table = dashboard.get_by_role("treegrid", name="Services")
    table.get_by_role("row", name="doorbell").wait_for()
    table.focus()
    for key in ("Home", "ArrowDown", "End", "ArrowUp", "Home"):
        dashboard.keyboard.press(key)
    dashboard.keyboard.press("Enter")
    panel = dashboard.get_by_role("complementary", name="Details")
    panel.get_by_role("heading", level=2).wait_for()
    dashboard.keyboard.press("Escape")
    panel.wait_for(state="hidden")
    assert dashboard.evaluate("document.activeElement.getAttribute('aria-label')") == "Services"


def test_events_begin_before_the_page_was_opened(new_dashboard: Page) -> None:
    """An event also says whom it happened to if the column of clients has no room."""
    go(new_dashboard, "Events")
    grid = new_dashboard.get_by_role("grid", name="Events")
    grid.get_by_role("row", name="Provides doorbell").wait_for()
    # The number of the record is the last column.
    grid.get_by_role("row", name=re.compile(r"Connected carl \(claimed\) [\d,]+$")).first.wait_for()
    new_dashboard.set_viewport_size({"width": 390, "height": 844})
    grid.get_by_role("row", name=re.compile(r"Connected carl \(claimed\)$")).first.wait_for()


def test_it_says_why_a_session_is_gone(new_dashboard: Page, server: RunningServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port("objects"))) as guest:
        guest.sendall(b'{"event":"routing/subscribe","routing-id":"guest","id":"1"}\0{bad\0')
        while guest.recv(4096):
            pass
    new_dashboard.reload()
    go(new_dashboard, "Closed")
    new_dashboard.get_by_role("row", name="guest (claimed) bad-json objects").click()
    panel = new_dashboard.get_by_role("complementary", name="Details")
    panel.get_by_text("Gone: bad-json").wait_for()
    panel.locator(".verdict").get_by_text(REASONS["bad-json"][1:]).wait_for()
    history = [each.split("\n")[1] for each in panel.get_by_role("listitem").all_inner_texts()]
    assert (history[0], history[-1]) == ("Connected", "Closed")


def test_changes_take_the_token_and_a_confirmation(new_dashboard: Page, server: RunningServer, token: str) -> None:
    with ObjectsClient(port=server.port("objects")) as guest:
        guest.subscribe(routing_id="unwanted")
        go(new_dashboard, "Sessions")
        new_dashboard.get_by_role("row", name="unwanted").click()
        panel = new_dashboard.get_by_role("complementary", name="Details")
        panel.get_by_text("Present").wait_for()
        assert panel.get_by_role("button", name="Close session").count() == 0
        new_dashboard.get_by_role("button", name="Sign in").click()
        form = new_dashboard.get_by_role("dialog")
        form.locator("input[name=token]").fill(token)
        form.get_by_role("button", name="Sign in").click()
        panel.get_by_role("button", name="Close session").click()
        confirmation = new_dashboard.get_by_role("dialog", name="Close this session?")
        assert new_dashboard.evaluate("document.activeElement.textContent") == "Cancel"
        confirmation.get_by_role("button", name="Close session").click()
        panel.get_by_text("Gone: closed-by-operator").wait_for()
        with pytest.raises(ConnectionError):
            deque(iter(guest.receive, None), 0)
    go(new_dashboard, "Server")
    new_dashboard.get_by_role("button", name="Drain…").click()
    question = new_dashboard.get_by_role("dialog", name="Drain and stop this server?")
    assert re.search(r"It ends \d+ sessions? within 5 s, one after the other", question.inner_text())
    question.get_by_role("button", name="Cancel").click()
    assert new_dashboard.evaluate("JSON.stringify([localStorage.length, document.cookie])") == '[0,""]'
    new_dashboard.get_by_role("button", name="Sign out").click()
    new_dashboard.get_by_role("banner").get_by_text("not signed in").wait_for()
    assert new_dashboard.evaluate("sessionStorage.length") == 0


def test_it_asks_who_you_are_if_the_server_does(page: Page, guarded: RunningServer) -> None:
    page.goto(address(guarded))
    form = page.get_by_role("dialog", name="Sign in")
    form.get_by_label("User", exact=True).fill("joe")
    form.get_by_label("Secret", exact=True).fill("guessed")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    form.get_by_text("The server does not accept that.").wait_for()
    form.get_by_label("Secret", exact=True).fill("s3cret")
    page.keyboard.press("Enter")
    form.wait_for(state="hidden")
    page.get_by_role("banner").get_by_text("joe").wait_for()
    page.reload()
    page.get_by_role("banner").get_by_text("joe").wait_for()
    assert form.count() == 0
    failed = failed_logins(page)
    # Credentials that are of no use any more are tried once: a user who fails too often is made to wait.
    page.evaluate("sessionStorage.setItem('bussrv.authorization', 'Basic am9lOm9sZA==')")
    page.reload()
    form.get_by_text("The server does not accept your credentials any more.").wait_for()
    page.wait_for_timeout(1_000)
    form.get_by_label("User", exact=True).fill("joe")
    form.get_by_label("Secret", exact=True).fill("s3cret")
    page.keyboard.press("Enter")
    form.wait_for(state="hidden")
    assert failed_logins(page) == failed + 1


def failed_logins(page: Page) -> int:
    go(page, "Limits")
    row = page.get_by_role("grid", name="Counters").get_by_role("row", name="bad-credentials")
    row.wait_for()
    return int(row.get_by_role("gridcell").last.inner_text())


@pytest.fixture
def held() -> Iterator[socket.socket]:
    """A port that nobody else is given while no server runs."""
    with reserve_port() as found:
        yield found


def test_it_says_that_the_server_is_gone_and_goes_on_afterwards(
    page: Page, tmp_path: Path, held: socket.socket
) -> None:
    at_the_same_port = ["--admin", str(held.getsockname()[1]), *OPTIONS]
    with (
        ForkedServer(tmp_path / "journal", at_the_same_port) as server,
        ObjectsClient(port=server.port("objects")) as client,
    ):
        client.subscribe(routing_id="before")
        page.goto(address(server, "sessions"))
        page.get_by_role("row", name="before").wait_for()
        server.process.kill()
        page.get_by_role("alert").get_by_text("The server has not answered since").wait_for()
        # It is not said to be well any more.
        page.get_by_role("banner").get_by_role("link", name="All is well").wait_for(state="hidden")
        go(page, "Overview")
        assert "good" not in (page.locator("a.verdict").get_attribute("class") or "")
        go(page, "Sessions")
        page.get_by_role("button", name="Try now").click()
    with ForkedServer(tmp_path / "journal", at_the_same_port) as server:
        with ObjectsClient(port=server.port("objects")) as client:
            client.subscribe(routing_id="after")
            page.get_by_role("row", name="after").wait_for()
            page.get_by_role("row", name="before").wait_for(state="detached")
            page.get_by_role("alert").wait_for(state="hidden")
        # Everything that was journaled while nobody answered.
        go(page, "Events")
        for event in ("Server recovered after a crash", "Server started", "Connected"):
            page.get_by_role("grid", name="Events").get_by_text(event).first.wait_for()
        # An address that somebody was sent, of a record that the page itself has not seen.
        page.goto(address(server, "events?record=1"))
        page.reload()
        page.get_by_role("complementary", name="Details").get_by_text("server.started").wait_for()


def test_a_tap_shows_objects_and_stops(dashboard: Page, clients: dict[str, ObjectsClient]) -> None:
    go(dashboard, "Tap")
    dashboard.get_by_label("Service").fill("pu*")
    dashboard.get_by_label("Payloads").check()
    dashboard.get_by_role("button", name="Start").click()
    dashboard.get_by_text("Objects that pass are shown.").wait_for()
    clients["cellar"].send({"sender": "pump", "type": "text/plain", "size": 11}, b"<b>bold</b>")
    dashboard.get_by_role("row", name="carl (claimed) pump").click()
    panel = dashboard.get_by_role("complementary", name="Details")
    panel.get_by_text("<b>bold</b>", exact=True).wait_for()
    dashboard.get_by_role("button", name="Stop").click()
    dashboard.get_by_role("button", name="Start").wait_for()


def test_a_service_shows_both_sides_by_format(dashboard: Page) -> None:
    go(dashboard, "Services")
    dashboard.get_by_role("row", name="doorbell 1").click()
    panel = dashboard.get_by_role("complementary", name="Details")
    panel.get_by_role("link", name="carl (claimed)").wait_for()
    assert panel.get_by_role("heading", level=4).all_inner_texts() == ["objects\n1", "spp\n1"]


def test_a_session_that_is_away_says_since_when_and_until_when(new_dashboard: Page) -> None:
    def leave(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        for each in found.get("items", [found]):
            if each.get("routing_id") == "cellar":
                each |= {"state": "away", "away_since": ago(7200), "kept_until": ago(-90_000), "waiting_bytes": 5_000}
        route.fulfill(response=answer, json=found)

    new_dashboard.route(re.compile(r"/api/v1/sessions(/[^/]*)?(\?.*)?$"), leave)
    new_dashboard.goto(new_dashboard.url.partition("#")[0] + "#/sessions")
    new_dashboard.reload()
    row = new_dashboard.get_by_role("row", name="away")
    row.get_by_text("away 2 h").wait_for()
    new_dashboard.get_by_text(re.compile(r"^\d+ here, 1 away$")).wait_for()
    row.click()
    panel = new_dashboard.get_by_role("complementary", name="Details")
    panel.get_by_text("Away for 2 h").wait_for()
    panel.get_by_text(re.compile("^It left at .+, and is kept until .+\\.$")).wait_for()
    panel.get_by_text("4.9 KiB").wait_for()


def ago(seconds: float) -> str:
    return format_time(round((time.time() - seconds) * 1_000_000))


def test_records_change_the_state_of_a_session(dashboard: Page) -> None:
    """Also of one that is kept for ever, which no date of JavaScript can say."""
    states = dashboard.evaluate(
        """async () => {
            const { Sessions } = await import("/static/js/sessions.js");
            const { line, remark } = await import("/static/js/words.js");
            const held = new Sessions(null);
            const about = { session: "b.1", protocol: "mqtt", time: "2026-11-21T14:02:03.000000Z" };
            const records = [
              { ...about, event: "session.opened", seq: 1, persistent: true, peer: "192.0.2.1:5" },
              { ...about, event: "session.left", seq: 2, until: 2 ** 63 - 1, reason: "connection-lost" },
              { ...about, event: "session.resumed", seq: 3, peer: "192.0.2.9:7" },
            ];
            return records.map((record) => {
              held.follow([record]);
              const { state, away_since, kept_until, peer } = held.get("b.1");
              return [state, away_since, kept_until, peer, line(record)[0]];
            });
        }"""
    )
    since, until = "2026-11-21T14:02:03.000000Z", "9999-12-31T23:59:59.999Z"
    assert states == [
        ["open", None, None, "192.0.2.1:5", "Connected"],
        ["away", since, until, "192.0.2.1:5", "Left, session kept"],
        ["open", None, None, "192.0.2.9:7", "Came back"],
    ]


def test_a_link_that_is_down_says_why_and_since_when(dashboard: Page) -> None:
    go(dashboard, "Links")
    row = dashboard.get_by_role("row", name="shed down")
    row.wait_for()
    assert re.match(r"shed\s+down\s+it was never up\s+(–\s+)?(\d+ min|(\d+ min )?[\d.]+ s)\b", row.inner_text().strip())


def test_hostile_names_are_text(dashboard: Page) -> None:
    go(dashboard, "Sessions")
    row = dashboard.get_by_role("row", name=MARKUP)
    row.wait_for()
    assert dashboard.locator("td *, main img").count() == 0
    row.click()
    # The server keeps 255 characters of what a client says it is.
    dashboard.get_by_role("button", name="Show all 255 characters").click()
    assert dashboard.get_by_label("The whole name").inner_text() == LONG[:255]
    # Nor is it closed when the page asks for the session again, every two seconds.
    with dashboard.expect_response("**/api/v1/sessions/*"):
        pass
    dashboard.wait_for_timeout(100)
    assert dashboard.get_by_label("The whole name").is_visible()
    assert dashboard.locator("aside img").count() == 0


def test_names_hide_nothing_and_are_cut(dashboard: Page) -> None:
    """Names that no server of this version would take, but an older journal may have."""
    shown = dashboard.evaluate(
        """async (names) => {
            const { name, short } = await import("/static/js/names.js");
            return names.map((each) => [short(each), name(each).textContent.length]);
        }""",
        [REVERSED, LONG, "a\u0300" + "\u0301" * 50, "שלום", "\U0001f389" * 200, "half \ud83c", ""],
    )
    assert [text for text, _ in shown] == [
        "‹U+202E›gpj.exe‹U+2066›",
        LONG[:119] + "…",
        "a\u0300\u0301\u0301\u0301‹…›",
        "שלום",
        "\U0001f389" * 60 + "…",
        "half ‹U+D83C›",
        "",
    ]
    assert max(length for _, length in shown) < 200


def test_the_journal_shows_what_an_audit_says(page: Page, tmp_path: Path) -> None:
    """Both verdicts, what was found, and when; also that there should be a newer one by now."""
    write_journal(tmp_path / "hall", events=500, attacks=["password-guessing"], faults=["session-never-closed"])
    file = tmp_path / "audit" / "summary.json"
    with ForkedServer(tmp_path / "journal", [*OPTIONS, "--audit-summary", str(file)]) as server:
        page.goto(address(server, "journal"))
        page.get_by_text("There is no audit yet").wait_for()
        audit(None, [tmp_path / "hall"], tmp_path / "audit", every=3600)
        card = page.locator(".card", has=page.get_by_role("heading", name="Audit"))
        card.get_by_text("3 errors, 0 warnings").wait_for()
        card.get_by_text("incidents need a look").wait_for()
        card.get_by_text("was never closed").first.wait_for()
        assert "failed logins" in card.get_by_role("listitem").filter(has_text="admin").first.inner_text()
        assert card.get_by_text("Stale").count() == 0
        page.get_by_role("navigation").get_by_role("link", name="Journal !").wait_for()
        assert serious_findings(page) == []
        found = json.loads(file.read_text())
        well = {"integrity": "intact", "security": "quiet", "findings": [], "incidents": [], "incident_kinds": {}}
        file.write_text(json.dumps(found | well | {"severities": {"error": 0, "warning": 0, "notice": 0}}))
        card.get_by_text("The journal is intact").wait_for()
        card.get_by_text("Nothing needs a look").wait_for()
        file.write_text(json.dumps(found | {"audited": "2026-11-01T00:00:00.000000Z", "every": 60}))
        card.get_by_text("Stale: the audit has stopped, or fails").wait_for()
        file.write_text(json.dumps(found | {"findings": [found["findings"][0] | {"message": MARKUP + REVERSED}]}))
        card.get_by_text("<b>bold</b>‹U+202E›").wait_for()
        file.write_text("{")
        card.get_by_text("Input data was truncated").wait_for()


def test_why_a_client_did_not_get_it_is_asked(dashboard: Page) -> None:
    go(dashboard, "Why")
    dashboard.get_by_label("When").fill("")
    dashboard.get_by_label("Which one").fill('{"type":"text/plain"}')
    dashboard.get_by_role("button", name="Ask").click()
    table = dashboard.get_by_role("grid", name="Sessions at that moment")
    table.get_by_role("row", name="carl (claimed)").first.wait_for()
    assert table.get_by_role("gridcell", name="it wants this").count()
    dashboard.get_by_label("When").fill("yesterday")
    dashboard.get_by_role("button", name="Ask").click()
    dashboard.get_by_text("That cannot be said").wait_for()
    dashboard.get_by_text("at: 'yesterday' does not fit. A time in UTC such as").wait_for()
    assert dashboard.get_by_text("Nobody is called so").count() == 0


def test_the_page_calls_sessions_as_the_server_does(dashboard: Page) -> None:
    """And it sorts names as people do."""
    found, ordered = dashboard.evaluate(
        """async ([rows, names]) => {
            const { calledBy, natural } = await import("/static/js/names.js");
            return [rows.map(calledBy), names.sort(natural)];
        }""",
        [[who for who, _ in CASES], ["attic-12", "attic-4", "b", "attic"]],
    )
    assert found == [called(who) for who, _ in CASES]
    assert ordered == ["attic", "attic-4", "attic-12", "b"]


def test_an_address_without_a_view_says_so_and_keys_are_told(dashboard: Page, server: RunningServer) -> None:
    dashboard.goto(address(server, "nonsense"))
    dashboard.get_by_role("heading", level=1, name="No such view").wait_for()
    dashboard.get_by_text("nonsense").wait_for()
    dashboard.keyboard.press("?")
    dashboard.get_by_role("dialog", name="Keys").get_by_text("Go to the filter of the view").wait_for()
    dashboard.keyboard.press("Escape")
    dashboard.get_by_role("link", name="To the overview").click()
    dashboard.get_by_role("heading", level=1, name="Overview").wait_for()


def test_limits_have_units_and_the_server_says_what_it_uses(dashboard: Page) -> None:
    go(dashboard, "Limits")
    dashboard.get_by_role("row", name=re.compile("admin-max-body .* 64 KiB")).wait_for()
    dashboard.get_by_role("row", name=re.compile("admin-request-timeout .* 10 s")).wait_for()
    # A telephone has no room for what a limit means, and nothing that points at it.
    # No other row comes before it while it is clicked.
    dashboard.get_by_label("Filter limits and counters").fill("admin-max-body")
    dashboard.get_by_role("row", name=re.compile("^admin-max-body ")).click()
    panel = dashboard.get_by_role("complementary", name="Details")
    panel.get_by_text("A longer one is refused, body-too-large, and the connection closed.").wait_for()
    panel.get_by_text("--admin-max-body", exact=True).wait_for()
    dashboard.get_by_label("Filter limits and counters").fill("")
    dashboard.get_by_role("row", name=re.compile("admin-request-timeout ")).wait_for()
    assert "`" not in dashboard.get_by_role("main").inner_text() + panel.inner_text()
    go(dashboard, "Server")
    main = dashboard.get_by_role("main")
    for text in (re.compile("checks are well"), "Memory", re.compile("% of one core"), "--admin-max-rate"):
        main.get_by_text(text).first.wait_for()


def test_no_answer_is_asked_for_again_soon(dashboard: Page) -> None:
    """An answer that takes long is asked for less often. One that never came says nothing of how long it takes."""
    delays = dashboard.evaluate(
        """async () => {
            const { Poll } = await import("/static/js/poll.js");
            const later = window.setTimeout;
            const delaysOf = (work) => new Promise((done) => {
              const delays = [];
              const poll = new Poll(work, 10);
              window.setTimeout = (next, delay) => {
                delays.push(delay);
                poll.stop();
                done(delays);
              };
              poll.start();
            });
            const slow = (fate) => () => new Promise((...ends) => later(ends[fate], 50));
            const found = [await delaysOf(slow(0)), await delaysOf(slow(1))];
            window.setTimeout = later;
            return found;
        }"""
    )
    ((answered,), (failed,)) = delays
    assert answered >= 490
    assert failed == 10
