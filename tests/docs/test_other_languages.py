"""The page on other languages: each program is run as it is written, and outlives a server that is killed."""

from __future__ import annotations

import functools
import http.server
import queue
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bussrv.client import inbus
from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.wire import spp
from tests.browser import fresh_page, watch
from tests.docs.pages import blocks, page
from tests.restarted import RestartedServer

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

pytestmark = pytest.mark.processes

PAGE = "docs/how-to/other-languages.md"
PATIENCE = 60.0
SWITCH, LAMP = "hall/switch", "hall/lamp"

_PROGRAM = re.compile(
    r"^```console\n((?:\$ .*\n)+)```\n\n```(?:javascript|c|bash)\n((?:#|//|/\*) ([\w-]+\.\w+): [\s\S]*?)^```$",
    re.MULTILINE,
)
"""Commands, and the program that they are about. It names itself in its first line."""


def programs() -> dict[str, tuple[list[str], str]]:
    """The commands and the text of each program, by its name."""
    return {name: (re.findall(r"\$ (.*)", said), text) for said, text, name in _PROGRAM.findall(page(PAGE))}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestartedServer]:
    with RestartedServer(tmp_path / "journal", "objects", "inbus", "spp", "websocket") as running:
        yield running


def here(command: str, server: RestartedServer) -> str:
    """A command as it is run here: with the ports of the server, and with WebSocket in an older Node."""
    for name, port in (("objects", 7890), ("inbus", 7222), ("spp", 3002), ("websocket", 7892)):
        command = re.sub(rf"(127\.0\.0\.1[ :]){port}\b", rf"\g<1>{server.port(name)}", command)
    return command.replace("node ", f"node {' '.join(flags())} ") if command.startswith("node ") else command


@functools.cache
def flags() -> tuple[str, ...]:
    """Node 20 has to be asked for WebSocket."""
    asked = subprocess.run(["node", "-p", "typeof WebSocket"], capture_output=True, text=True, check=True)
    return () if asked.stdout.strip() == "function" else ("--experimental-websocket",)


class Program:
    """A program of the page that runs, as a context manager that ends it.

    :param needed: other programs that it needs; without one of them the test is skipped.
    """

    def __init__(self, name: str, server: RestartedServer, place: Path, *needed: str) -> None:
        for each in needed:
            if shutil.which(each) is None:
                pytest.skip(f"{each} is not installed")
        (*before, run), text = programs()[name]
        (place / name).write_text(text)
        for each in before:
            subprocess.run(["sh", "-c", here(each, server)], cwd=place, check=True, timeout=PATIENCE)
        # The test writes to its standard input.
        command = here(run, server).rpartition("| ")[2]
        self._process = subprocess.Popen(
            ["sh", "-c", f"exec {command}"], cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def await_line(self, wanted: str, prompt: Callable[[], object]) -> None:
        """Wait until it says this, and do ``prompt`` until then."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            prompt()
            with suppress(queue.Empty):
                while self._lines.get(timeout=0.2) != wanted:
                    pass
                return
        pytest.fail(f"it never said {wanted!r}")

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.poll() is None, "the program has ended"
        self._process.kill()
        self._process.communicate()
        self._reading.join()


def test_every_program_is_tested() -> None:
    names = {"follow-ws.mjs", "follow.mjs", "watch.c", "follow.c", "watch.sh", "publish.sh"}
    assert programs().keys() == names
    assert sum(len(blocks(PAGE, each)) for each in ("javascript", "c", "bash")) == len(names)


def expect_lamp(server: RestartedServer, value: str) -> None:
    """Turn the switch until the lamp follows."""
    with ObjectsClient(port=server.port("objects")) as member:
        member.subscribe(types=["text/*"])
        member.register(SWITCH)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            member.send({"type": "text/plain", "sender": SWITCH}, value.encode())
            with suppress(TimeoutError):
                while member.wait_for(lambda each: each.metadata.get("sender") == LAMP, 0.2).payload.decode() != value:
                    pass  # It follows what the switch said before.
                return
    pytest.fail("the lamp never followed")


@pytest.mark.parametrize(
    ("name", "needed"),
    [("follow-ws.mjs", ("node", "curl")), ("follow.mjs", ("node",)), ("follow.c", ("cc",))],
)
@pytest.mark.parametrize("keeps_journal", [True, False])
def test_the_lamp_follows_the_switch(
    name: str, needed: tuple[str, ...], keeps_journal: bool, server: RestartedServer, tmp_path: Path
) -> None:
    with Program(name, server, tmp_path, *needed):
        expect_lamp(server, "on 🙂")
        for value in ("off", "on"):
            server.kill()
            if not keeps_journal:
                shutil.rmtree(tmp_path / "journal")
            server.start()
            expect_lamp(server, value)


@pytest.mark.parametrize(("name", "needed"), [("watch.c", "cc"), ("watch.sh", "bash")])
def test_updates_of_a_service_are_printed(name: str, needed: str, server: RestartedServer, tmp_path: Path) -> None:
    with Program(name, server, tmp_path, needed) as program:
        for value in ("on 🙂", "off", "on"):
            with ObjectsClient(port=server.port("objects")) as member:
                member.subscribe_for_requests()
                member.register(SWITCH)
                send = functools.partial(member.send, {"type": "text/plain", "sender": SWITCH}, value.encode())
                program.await_line(f"{SWITCH}: {value}", send)
                server.kill()
            server.start()


def test_every_line_is_published(server: RestartedServer, tmp_path: Path) -> None:
    with Program("publish.sh", server, tmp_path, "bash") as program:
        program.tell("one 🙂")
        expect_last(server, "one 🙂")
        for value in ("two", "three"):
            server.kill()
            program.tell(value)
            server.start()
            expect_last(server, value)


def expect_last(server: RestartedServer, value: str) -> None:
    with SppClient(port=server.port("spp")) as watcher:
        watcher.wait_for(lambda event: event == spp.Offer("hall/clock"), timeout=PATIENCE)
        watcher.subscribe("hall/clock")
        watcher.wait_for(lambda event: event == spp.Info("hall/clock", value.encode()), timeout=PATIENCE)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[str]:
    """The address of the web page."""
    place = tmp_path / "pages"
    place.mkdir()
    (place / "hall.html").write_text(*blocks(PAGE, "html"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=place)) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}/hall.html"
        serving.shutdown()
        thread.join()


def test_the_web_page(server: RestartedServer, pages: str, profile: BrowserContext) -> None:
    with fresh_page(profile) as hall:
        faults = watch(hall)
        hall.goto(f"{pages}?server=127.0.0.1:{server.port('websocket')}")
        status, lines = hall.get_by_role("status"), hall.locator("li")
        for value in ("on 🙂", "off"):
            status.get_by_text("up", exact=True).wait_for()
            while lines.get_by_text(f"{LAMP}: {value}").count() == 0:
                inbus.publish(LAMP, value.encode(), server=server.addresses["inbus"])
                hall.wait_for_timeout(50)
            hall.get_by_label("Switch").fill(value)
            hall.get_by_label("Switch").press("Enter")
            with SppClient(port=server.port("spp")) as watcher:
                watcher.wait_for(lambda event: event == spp.Offer(SWITCH))
                watcher.subscribe(SWITCH)
                assert watcher.wait_for(lambda event: isinstance(event, spp.Info)) == spp.Info(SWITCH, value.encode())
            server.kill()
            status.get_by_text("down: connection-lost").wait_for()
            hall.get_by_label("Switch").press("Enter")
            lines.get_by_text("not sent: connection-lost").first.wait_for()
            server.start()
        lines.get_by_text("something may be missing here").nth(1).wait_for()
    assert [each for each in faults if not each.startswith("WebSocket connection to ")] == []
