"""The page on reverse proxies: its configurations serve the dashboard through a real nginx and a real haproxy."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bussrv.testing.server import PATIENCE, RunningServer
from tests.certificates import self_signed
from tests.docs.pages import blocks
from tests.end_to_end.cables import reserve_port
from tests.forked import ForkedServer
from tests.size import further

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.processes

PAGE = "docs/how-to/proxies.md"
NGINX = """daemon off; error_log stderr; pid nginx.pid; worker_processes 1; events {}
http { access_log off; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u;
scgi_temp_path s; %s }"""
PLAIN = "server { listen 443 ssl; ssl_certificate /etc/ssl/hall.pem; ssl_certificate_key /etc/ssl/hall.key; %s }"
DEFAULTS = PLAIN % "location /bus/ { proxy_pass http://127.0.0.1:7280/; }"
OPTIONS = ("--admin-host", "hall.example", "--auth", "memory:joe:s3cret")
SENTENCE = "The script of this page did not load, or was refused."


@contextmanager
def running(program: str, arguments: list[str], port: int, directory: Path) -> Iterator[None]:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    log = directory / f"{program}.log"
    with (
        log.open("w") as out,
        subprocess.Popen([program, *arguments], cwd=directory, stderr=out, stdout=out) as process,
    ):
        try:
            end = time.monotonic() + PATIENCE
            while True:
                assert process.poll() is None, log.read_text()
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.01)
            yield
        finally:
            process.terminate()


@contextmanager
def proxied(program: str, config: str, server: RunningServer, directory: Path) -> Iterator[int]:
    """A proxy with a configuration of the page before a server. :returns: its port."""
    key, certificate = self_signed(directory / "hall")
    both = directory / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    # A proxy is not told to choose one.
    held = reserve_port()
    port = held.getsockname()[1]
    for old, new in {
        "listen 443": f"listen 127.0.0.1:{port}",
        "bind :443": f"bind 127.0.0.1:{port}",
        "/etc/ssl/hall.pem": str(certificate),
        "/etc/ssl/hall.key": str(key),
        "/etc/haproxy/hall.pem": str(both),
        "127.0.0.1:7280": f"127.0.0.1:{server.port('admin')}",
    }.items():
        config = config.replace(old, new)
    file = directory / f"{program}.conf"
    file.write_text(("user root;" if os.geteuid() == 0 else "") + NGINX % config if program == "nginx" else config)
    arguments = ["-p", str(directory), "-c", str(file)] if program == "nginx" else ["-db", "-f", str(file)]
    with held, running(program, arguments, port, directory):
        yield port


def asked(port: int, path: str, host: str, **headers: str) -> tuple[int, HTTPSConnection, object]:
    context = ssl._create_unverified_context()
    connection = HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)
    fields = {"Host": host, "Authorization": "Basic am9lOnMzY3JldA==", "Content-Type": "application/json", **headers}
    connection.request("GET", path, headers=fields)
    answer = connection.getresponse()
    return answer.status, connection, answer


PROXIES = {"nginx": (), "haproxy": ("--admin", "haproxy:tcp:0:interface=127.0.0.1")}


@pytest.mark.parametrize("program", further(PROXIES))
def test_the_page_and_its_streams_pass(program: str, chromium: Browser, tmp_path: Path) -> None:
    (config,) = blocks(PAGE, program)
    with ForkedServer(tmp_path / "journal", [*OPTIONS, *PROXIES[program]]) as server, ExitStack() as stack:
        port = stack.enter_context(proxied(program, config, server, tmp_path))
        for host, status in {"hall.example": 200, f"localhost:{port}": 200, "evil.example": 421}.items():
            found, connection, _ = asked(port, "/bus/api/v1/server", host)
            connection.close()
            assert found == status, host
        # The first figures come at once, and are not kept until more have come.
        status, connection, answer = asked(port, "/bus/api/v1/live", "hall.example", Accept="text/event-stream")
        assert (status, answer.readline()) == (200, b"event: figures\n")  # type: ignore[attr-defined]
        connection.close()
        context = stack.enter_context(chromium.new_context(ignore_https_errors=True))
        page = context.new_page()
        page.goto(f"https://localhost:{port}/bus/")
        page.get_by_role("textbox", name=re.compile("user", re.IGNORECASE)).first.wait_for()
        assert SENTENCE not in page.content()
        # A change has an Origin, which is compared with Host.
        said = page.evaluate(
            """fetch("api/v1/log-level", {method: "PUT", body: '{"level": "warn"}',
            headers: {"Content-Type": "application/json", "Authorization": "Basic am9lOnMzY3JldA=="}})
            .then((answer) => answer.text())"""
        )
        assert json.loads(said) == {"log_level": "warn"}


def test_the_page_says_that_its_script_was_refused(chromium: Browser, tmp_path: Path) -> None:
    with (
        ForkedServer(tmp_path / "journal", OPTIONS) as server,
        proxied("nginx", DEFAULTS, server, tmp_path) as port,
        chromium.new_context(ignore_https_errors=True) as context,
    ):
        page = context.new_page()
        page.goto(f"https://localhost:{port}/bus/")
        page.get_by_text(SENTENCE).wait_for(state="visible")
