"""``client.js``, the client for web pages, in a real Chromium: at a server that is killed, and one that is played."""

from __future__ import annotations

import http.server
import json
import re
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bussrv.cli.admin_client import AdminClient
from bussrv.client import inbus
from bussrv.client.objects import BusError, ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.formats.websocket.request import client_script
from bussrv.wire import spp
from bussrv.wire.objects import encode
from tests.browser import fresh_page, watch
from tests.restarted import RestartedServer

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page, WebSocketRoute

pytestmark = pytest.mark.processes

MOST_LINES = 300
NOT_THERE = "WebSocket connection to "
FAKE = "ws://127.0.0.1:1/"
HELPERS = """
globalThis.text = (payload) => new TextDecoder().decode(payload);
/** The next so many messages and gaps, each in short. */
globalThis.take = async (feed, count) => {
  const found = [];
  while (found.length < count) {
    const { kind, service, payload, lost, reason } = (await feed.next()).value;
    found.push(kind === "gap" ? [kind, lost, reason] : [service, text(payload)]);
  }
  return found;
};
globalThis.failure = (promise) => promise.then(() => null, (error) => [error.name, error.reason, error.maybeDone]);
globalThis.feed = (subscription) => subscription[Symbol.asyncIterator]();
globalThis.up = async (each) => { for await (const { state } of each.states()) if (state === "up") return; };
0"""


class _Pages(http.server.BaseHTTPRequestHandler):
    """Serves an empty page, whose origin is another one than that of the server."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><link rel=icon href='data:,'>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RestartedServer]:
    with RestartedServer(tmp_path / "journal", "websocket", "objects") as restarted:
        yield restarted


@pytest.fixture
def client(profile: BrowserContext, origin: str, running: RestartedServer) -> Iterator[Page]:
    """A page that has imported the client from the server, and is connected as ``bus``. No script fails in it."""
    with fresh_page(profile) as page:
        faults = watch(page)
        page.goto(origin)
        page.evaluate(HELPERS)
        url = f"http://127.0.0.1:{running.port('websocket')}/client.js"
        page.evaluate("(url) => import(url).then((all) => Object.assign(globalThis, all, { bus: all.connect() }))", url)
        yield page
    # The browser itself tells the console of every server that is not there.
    assert [each for each in faults if not each.startswith(NOT_THERE)] == []


def test_the_client_is_small_and_one_module() -> None:
    lines = client_script().decode().splitlines()
    assert len(lines) <= MOST_LINES
    assert [line for line in lines if re.search(r"\bimport\b(?!\.meta)|https?://|\beval\b|innerHTML", line)] == []


def test_what_a_page_publishes_reaches_every_format(client: Page, running: RestartedServer) -> None:
    client.evaluate("bus.publish('tv', 'on 🙂', { confirm: true })")
    with (
        SppClient(port=running.port("spp")) as watcher,
        ObjectsClient(port=running.port("objects")) as member,
    ):
        watcher.wait_for(lambda event: event == spp.Offer("tv"))
        watcher.subscribe("tv")
        assert watcher.wait_for(lambda event: isinstance(event, spp.Info)).message.decode() == "on 🙂"
        member.subscribe()
        client.evaluate("bus.publish('tv', new Uint8Array([0, 255]).buffer, { type: 'image/x' })")
        assert watcher.wait_for(lambda event: isinstance(event, spp.Info)).message == b"\0\xff"
        got = member.wait_for(lambda each: each.metadata.get("sender") == "tv")
        assert (got.payload, got.metadata["type"]) == (b"\0\xff", "image/x")
    sent = "bus.publish('tv', 7).catch((error) => error.name)"
    assert client.evaluate(sent) == "TypeError"


def test_a_page_receives_what_any_format_publishes(client: Page, running: RestartedServer) -> None:
    client.evaluate("globalThis.tv = bus.subscribe('tv', 'lamp'), tv.ready")
    client.evaluate("globalThis.both = feed(tv), globalThis.lamp = feed(bus.subscribe('lamp')), 0")
    with ObjectsClient(port=running.port("objects")) as member:
        member.subscribe(receive_mode="events_only")
        for name in ("tv", "lamp", "radio"):
            member.register(name)
            member.send({"type": "text/plain", "sender": name}, name.encode())
        # Nobody is asked for it, and nobody knows the one who says so.
        member.send({"type": "text/plain", "sender": "door", "__proto__": {"polluted": 1}}, b"x")
        inbus.publish("tv", "Grüße 🙂".encode(), server=running.addresses["inbus"])
        wanted = [["tv", "tv"], ["lamp", "lamp"], ["tv", "Grüße 🙂"]]
        assert client.evaluate("take(both, 3)") == wanted
        assert client.evaluate("take(lamp, 1)") == [["lamp", "lamp"]]
        metadata = {"type": "text/plain", "sender": "tv", "__proto__": {"polluted": 1}, "constructor": 2}
        member.send(metadata, b"x")
        got = client.evaluate(
            "both.next().then(({ value }) => ({ ...value, metadata: JSON.stringify(value.metadata) }))"
        )
        assert json.loads(got["metadata"])["__proto__"] == {"polluted": 1}
        assert (got["kind"], got["provider"], got["type"]) == ("message", member.routing_id, "text/plain")
        assert client.evaluate("[{}.polluted, bus.polluted]") == [None, None]
    # The page's own do not come back. A service that is not wanted any more is not asked for any more.
    client.evaluate("bus.publish('lamp', 'own', { confirm: true })")
    client.evaluate("tv.close()")
    client.evaluate("bus.publish('lamp', 'own', { confirm: true })")
    inbus.publish("lamp", b"off", server=running.addresses["inbus"])
    assert client.evaluate("take(lamp, 1)") == [["lamp", "off"]]
    assert client.evaluate("both.next().then(({ done }) => done)")


def test_a_page_asks_and_answers(client: Page, running: RestartedServer) -> None:
    client.evaluate("bus.serve('upper', ({ payload }) => text(payload).toUpperCase())")
    client.evaluate("bus.serve('broken', () => { throw new BusError('not-now', 'ask again later') })")
    client.evaluate("bus.publish('tv', 'on', { confirm: true })")
    client.evaluate("globalThis.other = connect(undefined, { name: 'other' }), 0")
    with ObjectsClient(port=running.port("objects")) as member:
        member.subscribe(receive_mode="events_only")
        assert member.request("upper", "grüße".encode()).payload.decode() == "GRÜSSE"
        for name, reason in (("broken", "not-now"), ("tv", "not-served")):
            with pytest.raises(BusError) as refused:
                member.request(name)
            assert refused.value.reason == reason
        member.register("silent")
        member.register("clock")
        asked = client.evaluate_handle(
            "[failure(other.request('silent', '', { timeout: 0.3 })), other.request('clock')]"
        )
        requests = member.requests(10)
        assert next(requests).metadata["name"] == "silent"
        member.reply(next(requests), b"12:00", type="text/plain")
        assert client.evaluate("(asked) => asked[0]", asked) == ["TimedOut", "timed-out", None]
        answer = "async (asked) => { const { payload, type } = await asked[1]; return [text(payload), type]; }"
        assert client.evaluate(answer, asked) == ["12:00", "text/plain"]
        gone = client.evaluate_handle("[failure(other.request('silent'))]")
        assert next(requests).metadata["name"] == "silent"
        member.close()
        assert client.evaluate("(gone) => gone[0]", gone) == ["Lost", "provider-gone", True]
    assert client.evaluate("other.request('upper', 'x').then(({ payload }) => text(payload))") == "X"
    # A page that has answered requests is not waited for when another service is asked.
    assert client.evaluate("failure(other.request('nobody'))") == ["NoService", "no-such-service", None]


def test_nobody_provides_the_service(client: Page) -> None:
    assert client.evaluate("failure(bus.request('nobody'))") == ["NoService", "no-such-service", None]
    assert client.evaluate("failure(bus.publish('bus/x', 'x', { confirm: true }))") == [
        "BusError",
        "reserved-name",
        None,
    ]
    assert client.evaluate("failure(bus.serve('bus/x', () => 'x'))") == ["BusError", "reserved-name", None]
    client.evaluate("globalThis.tv = bus.subscribe('tv'), tv.ready")
    refused = "failure(bus.subscribe('a\\nb', 'tv').ready)"
    assert client.evaluate(refused) == ["BusError", "bad-service-name", None]
    for call in ("subscribe('a\\ud800').ready", "publish('a\\ud800', '')", "serve('\\udc00', () => '')"):
        assert client.evaluate(f"failure(bus.{call})") == ["TypeError", None, None]
    assert client.evaluate("bus.publish('\\\\ud800 🙂', '\\ud800', { confirm: true })") is None
    assert client.evaluate("tv.ready") is None


def test_a_server_that_is_killed_and_comes_back(client: Page, running: RestartedServer) -> None:
    client.evaluate(
        """() => {
          globalThis.told = [];
          bus.onstate = (state) => told.push(state);
          globalThis.patient = connect(undefined, { offline: "wait" });
          globalThis.tv = bus.subscribe("tv");
          globalThis.both = feed(bus.subscribe("tv", "lamp"));
        }"""
    )
    client.evaluate("Promise.all([tv.ready, bus.serve('upper', ({ payload }) => text(payload).toUpperCase())])")
    client.evaluate("patient.publish('lamp', 'before', { confirm: true })")
    assert client.evaluate("take(both, 1)") == [["lamp", "before"]]
    with ObjectsClient(port=running.port("objects")) as member:
        member.subscribe(receive_mode="events_only")
        member.register("silent")
        asked = client.evaluate_handle("[failure(bus.request('silent', '', { timeout: 60 }))]")
        assert next(member.requests(10)).metadata["name"] == "silent"
        running.kill()
    assert client.evaluate("(asked) => asked[0]", asked) == ["Lost", "connection-lost", True]
    assert client.evaluate("failure(bus.publish('tv', 'x'))") == ["Lost", "connection-lost", False]
    assert client.evaluate("failure(bus.request('upper', 'x'))") == ["Lost", "connection-lost", False]
    late = "failure(patient.request('upper', 'x', { timeout: 0.2 }))"
    assert client.evaluate(late) == ["TimedOut", "timed-out", None]
    client.wait_for_function("told.length > 3")
    client.evaluate("globalThis.sent = [1, 2, 3].map((each) => patient.publish('lamp', `${each}`)), 0")
    client.evaluate("globalThis.asked = patient.request('bus/clock', '', { timeout: 60 }), 0")
    running.start()
    assert client.evaluate("asked.then(({ type }) => type)").startswith("text/plain")
    assert client.evaluate("Promise.all(sent)") == [None] * 3
    assert client.evaluate("take(both, 1)") == [["gap", None, "reconnected"]]
    assert client.evaluate("take(feed(tv), 1)") == [["gap", None, "reconnected"]]
    # What was subscribed and served is so again.
    client.evaluate("patient.publish('lamp', 'after', { confirm: true })")
    while client.evaluate("take(both, 1)") != [["lamp", "after"]]:
        pass
    # The server has answered the registration of the service when it confirms what is published on it.
    client.evaluate("bus.publish('upper', '', { confirm: true })")
    assert client.evaluate("patient.request('upper', 'after').then(({ payload }) => text(payload))") == "AFTER"
    told = client.evaluate("told")
    delays = [state["retryIn"] for state in told if state["state"] == "down"]
    assert {state.get("reason") for state in told} == {None, "connection-lost"}
    assert all(0.05 * 2**tried <= delay <= 0.1 * 2**tried for tried, delay in enumerate(delays)), delays
    assert [state["state"] for state in told][-1] == "up"
    assert client.evaluate("bus.states().next()")["value"] == told[-1]


def test_a_queue_that_is_full_loses_the_oldest_and_says_so(client: Page, running: RestartedServer) -> None:
    client.evaluate("globalThis.slow = bus.subscribe('tv', { queue: 3 }), slow.ready")
    client.evaluate("globalThis.other = connect(), 0")
    publish = "(numbers) => Promise.all(numbers.map((each) => other.publish('tv', `${each}`, { confirm: true })))"
    client.evaluate(publish, list(range(10)))
    client.evaluate("bus.request('upper').catch(() => {})")
    assert client.evaluate("take(feed(slow), 3)") == [["gap", 8, "queue-full"], ["tv", "8"], ["tv", "9"]]
    running.kill()
    running.start()
    client.evaluate("slow.ready.then(() => up(bus)).then(() => up(other))")
    client.evaluate("bus.publish('radio', '', { confirm: true })")
    client.evaluate(publish, list(range(10)))
    client.evaluate("bus.request('upper').catch(() => {})")
    assert client.evaluate("take(feed(slow), 3)") == [["gap", None, "reconnected"], ["tv", "8"], ["tv", "9"]]


def test_a_bus_that_is_closed(client: Page, running: RestartedServer) -> None:
    client.evaluate(
        "globalThis.tv = feed(bus.subscribe('tv')), globalThis.once = connect(undefined, { reconnect: null }), 0"
    )
    client.evaluate("globalThis.lamp = once.subscribe('lamp'), Promise.all([lamp.ready, bus.serve('upper', () => '')])")
    client.evaluate("globalThis.ended = feed(lamp), globalThis.waiting = [failure(ended.next())], 0")
    client.evaluate("bus.close(), bus.close()")
    assert client.evaluate("tv.next().then(({ done }) => done)")
    for call in ("publish('tv', '')", "request('upper')", "serve('x', () => '')", "subscribe('tv').ready"):
        assert client.evaluate(f"failure(bus.{call})") == ["Lost", "closed", False]
    states = "async () => { const all = []; for await (const each of bus.states()) all.push(each); return all; }"
    assert client.evaluate(states) == [{"state": "down", "reason": "closed", "retryIn": None}]
    running.kill()
    assert client.evaluate("waiting[0]") == ["Lost", "connection-lost", False]
    assert client.evaluate("ended.next().then(({ done }) => done)")
    assert client.evaluate("failure(once.publish('tv', ''))") == ["Lost", "connection-lost", False]


def test_imports_leave_nothing(client: Page, running: RestartedServer, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{running.port('websocket')}/client.js"
    imports = "async (url) => { for (let each = 0; each < 200; each++) await import(`${url}?${each}`); }"
    client.evaluate(imports, url)
    client.evaluate("bus.publish('tv', 'on', { confirm: true })")
    journaled = "".join(path.read_text() for path in sorted((tmp_path / "journal").glob("*.jsonl")))
    assert len(re.findall('"event":"session.opened".*"protocol":"websocket"', journaled)) == 1
    listed = AdminClient(port=running.port("admin")).get("/sessions")
    assert [each["protocol"] for each in listed["items"]] == ["bus", "websocket"]


# A server that is played: what it says is hostile, or nothing.

SOON = {"reconnect": {"most": 0.01}}
Answer = Callable[["WebSocketRoute", dict[str, Any]], object]
MALFORMED = (
    *(b"", b"{}", b"\0", b"x\0", b"\xff\0", b"null\0", b"[]\0", b"7\0", b'"x"\0', b"\xef\xbb\xbf{\0", b"{}{}\0"),
    *(b'{"size":1}\0', b'{"size":1}\0xx', b'{"size":"1"}\0x', b'{"size":-1}\0', b'{"size":null}\0x', b"{\0}\0"),
)
ODD = (
    *(
        {},
        {"event": None},
        {"event": 7},
        {"event": {}},
        {"event": "error"},
        {"event": "error", "reason": {"toString": 1}},
    ),
    *({"sender": each} for each in ("radio", None, 7, [], ["tv"], {}, "__proto__", "constructor")),
    *({"event": "services/request", "name": each} for each in ("tv", None, "__proto__", ["upper"], {"toString": 1})),
    *({"event": each, "in-reply-to": "1"} for each in ("error", "services/reply", "routing/subscribe/reply")),
    *({"event": "services/reply", "in-reply-to": each} for each in (None, 1, "99", "__proto__", [], {"toString": 1})),
    *({"event": "services/reply", "route": each} for each in (None, 7, "x", [], [None], {})),
    {"event": "toString", "__proto__": {"polluted": 1}, "constructor": {"prototype": {"polluted": 1}}},
    {"event": "__proto__", "in-reply-to": "__proto__"},
)


@pytest.fixture
def played(page: Page, origin: str) -> Callable[..., Page]:
    """A page whose ``bus`` is connected to a server that answers as the test says."""

    def connected(answer: Answer, **options: Any) -> Page:
        def opened(socket: WebSocketRoute) -> None:
            socket.on_message(lambda message: answer(socket, json.loads(bytes(message).split(b"\0")[0])))

        page.route_web_socket(FAKE, opened)
        page.goto(origin)
        page.evaluate(HELPERS)
        script = f"data:text/javascript;base64,{b64encode(client_script()).decode()}"
        page.evaluate("(url) => import(url).then((all) => Object.assign(globalThis, all))", script)
        page.evaluate("(options) => (globalThis.bus = connect(...options), 0)", [FAKE, {**SOON, **options}])
        page.evaluate("globalThis.told = [], bus.onstate = (state) => told.push(state.reason ?? state.state), 0")
        return page

    return connected


def join(said: dict[str, Any], **more: Any) -> bytes:
    """The answer to whatever was asked."""
    event = "pong" if said["event"] == "ping" else f"{said['event']}/reply"
    return encode({"event": event, "in-reply-to": said["id"], "routing-id": "me", **more})


def test_a_malformed_message_ends_the_connection(played: Callable[..., Page]) -> None:
    left = list(MALFORMED)

    def answer(socket: WebSocketRoute, said: dict[str, Any]) -> None:
        socket.send(join(said))
        if left:
            socket.send(left.pop())

    page = played(answer)
    page.wait_for_function("(count) => told.length > count", arg=2 * len(MALFORMED))
    assert page.evaluate("told") == ["up", "malformed"] * len(MALFORMED) + ["up"]


def test_odd_messages_change_nothing(played: Callable[..., Page]) -> None:
    asked: list[WebSocketRoute] = []

    def answer(socket: WebSocketRoute, said: dict[str, Any]) -> None:
        if said["event"] == "services/request":
            # Only the server's own pong has no route.
            socket.send(encode({"event": "pong", "in-reply-to": said["id"], "route": ["stranger"]}))
            for each in ODD:
                socket.send(encode(each))
            socket.send(
                encode({"event": "error", "in-reply-to": said["id"], "reason": ["x"], "message": {"toString": 1}})
            )
            socket.send(encode({"sender": "tv", "type": None, "app-type": 7}, b"x"))
        elif said["event"] not in ("services/reply", "error"):
            asked.append(socket)
            socket.send(join(said))

    page = played(answer)
    page.evaluate("globalThis.tv = feed(bus.subscribe('tv', 'constructor')), bus.serve('upper', () => '')")
    failed = "bus.request('x').catch((error) => [error.name, error.reason, error.message])"
    assert page.evaluate(failed) == ["BusError", ["x"], ""]
    assert page.evaluate("take(tv, 2)") == [["constructor", ""], ["tv", "x"]]
    assert page.evaluate("[told, {}.polluted, bus.polluted]") == [["up"], None, None]


@pytest.mark.parametrize("answered", [0, 1, 2])
def test_a_silent_server_is_left(played: Callable[..., Page], page: Page, answered: int) -> None:
    """One that does not answer the page when it joins, or the first time that it asks for a sign of life, or later."""
    left = answered

    def answer(socket: WebSocketRoute, said: dict[str, Any]) -> None:
        nonlocal left
        if left:
            left -= 1
            socket.send(join(said))

    page.clock.install()
    played(answer, silence=200)
    told = ["up"][:answered]
    page.wait_for_function("(count) => told.length === count", arg=len(told))
    for _ in range(answered):
        # A word is missed at the first look, asked for at the second one, and waited for until the third one.
        page.clock.run_for(390_000)
        assert page.evaluate("told") == told
        page.clock.run_for(15_000)
        while left:
            page.wait_for_timeout(1)
        assert page.evaluate("told") == told
    page.clock.run_for(200_000)
    page.wait_for_function("told.includes('silent')")
    assert page.evaluate("(count) => told.slice(0, count)", len(told) + 1) == [*told, "silent"]


def test_what_was_granted_and_is_refused_later_is_tried_again(played: Callable[..., Page]) -> None:
    """For example while the disk of the server is full. The page is told, and nothing ends."""
    connections: list[WebSocketRoute] = []

    def answer(socket: WebSocketRoute, said: dict[str, Any]) -> None:
        if socket not in connections:
            connections.append(socket)
        wanted = said.get("services") if said["event"] == "routing/subscribe" else said.get("name")
        if wanted and len(connections) in (2, 3):
            socket.send(encode({"event": "error", "in-reply-to": said["id"], "reason": "journal-unavailable"}))
        else:
            socket.send(join(said))
        if wanted and len(connections) == 1 and wanted == "upper":
            socket.close()

    page = played(answer)
    page.evaluate("globalThis.tv = feed(bus.subscribe('tv')), bus.serve('upper', () => '')")
    assert page.evaluate("take(tv, 1)") == [["gap", None, "reconnected"]]
    lost = "journal-unavailable"
    assert page.evaluate("told") == ["up", "connection-lost", "up", lost, "up", lost, "up"]


def test_a_page_logs_in_once_and_asks_one_thing_at_a_time(played: Callable[..., Page]) -> None:
    sent: list[dict[str, Any]] = []
    held: list[bytes] = []

    def answer(socket: WebSocketRoute, said: dict[str, Any]) -> None:
        sent.append(said)
        if said.get("services"):
            held.append(join(said))
        elif "event" in said:
            socket.send(join(said))
        if said.get("event") == "ping":
            socket.send(held.pop())

    page = played(answer, user="ann", secret="hi", name="hall")
    page.evaluate("up(bus).then(() => { for (const each of ['a', 'b', 'c']) bus.subscribe('a', each); })")
    # The answers to subscriptions are held back until the page publishes.
    for _ in range(2):
        page.evaluate("bus.publish('tv', '', { confirm: true })")
    assert held == []
    common = {"event": "routing/subscribe", "receive_mode": "no_echo", "types": "none", "user": "ann", "name": "hall"}
    asked = [each for each in sent if each.get("event") == "routing/subscribe"]
    assert [{key: value for key, value in each.items() if key not in ("id", "size")} for each in asked] == [
        {**common, "services": [], "secret": "hi"},
        {**common, "services": ["a"]},
        {**common, "services": ["a", "b", "c"]},
    ]
    assert [each.get("event") for each in sent].count("services/register") == 1
    # Linked servers take an object for a copy if they know its id.
    assert all(re.fullmatch(r"\d+-\d+-\d+-\d+", each["id"]) for each in sent)
