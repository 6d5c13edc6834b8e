"""The webhook with real sockets: TLS, redirects, and servers that do not answer."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server
from typing import Any

import pytest

from tests.admin.incidents.told import TEXT, outcome
from tests.certificates import Authority

pytestmark = pytest.mark.processes


class Receiver(ThreadingHTTPServer):
    """A server that takes incidents.

    :param answer: its status. ``location``: where it leads.
    """

    def __init__(self, answer: int = 204, location: str = "", body: int = 0) -> None:
        self.got: list[tuple[str, bytes, dict[str, str]]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                text = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((self.path, text, dict(self.headers)))
                self.send_response(answer)
                if location:
                    self.send_header("Location", location)
                self.end_headers()
                for _ in range(body):
                    self.wfile.write(b"x" * 65_536)

            do_GET = do_POST  # noqa: N815 - the name is that of the standard library

            def log_message(self, *_: Any) -> None:
                pass

            def handle(self) -> None:
                with suppress(ConnectionError, ssl.SSLError):
                    super().handle()

        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, *_: Any) -> None:
        """A client that does not trust it breaks off."""


@contextmanager
def serving(receiver: Receiver) -> Iterator[Receiver]:
    thread = threading.Thread(target=receiver.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.shutdown()
        receiver.server_close()


def test_an_incident_is_posted_as_it_is() -> None:
    with serving(Receiver()) as receiver:
        assert outcome(webhook=f"http://127.0.0.1:{receiver.server_port}/hook?key=s") == ""
    ((path, text, headers),) = receiver.got
    assert (path, text.decode(), headers["Content-Type"]) == ("/hook?key=s", TEXT, "application/json")
    assert headers["Bussrv-Incident"] == "began"


def test_no_other_host_gets_it() -> None:
    with serving(Receiver()) as other:
        elsewhere = f"http://127.0.0.1:{other.server_port}/"
        with serving(Receiver(307, elsewhere)) as receiver:
            url = f"http://127.0.0.1:{receiver.server_port}/secret"
            assert outcome(webhook=url) == "127.0.0.1 answered 307"
    assert (len(receiver.got), other.got) == (1, [])


def test_a_refusal_and_a_silence_are_failures() -> None:
    with serving(Receiver(503, body=40)) as receiver:
        url = f"http://127.0.0.1:{receiver.server_port}/secret"
        assert outcome(webhook=url) == "127.0.0.1 answered 503"
    assert outcome(webhook=url) == "127.0.0.1 cannot be reached: ConnectionRefusedError"
    with create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/secret"
        assert outcome(webhook=url, patience=0.7) == "127.0.0.1 did not answer in time"


def test_a_certificate_is_checked(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    pair = authority.pair(tmp_path / "server", "localhost")
    receiver = Receiver()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    receiver.socket = context.wrap_socket(receiver.socket, server_side=True, do_handshake_on_connect=False)
    with serving(receiver):
        url = f"https://localhost:{receiver.server_port}/"
        assert outcome(webhook=url).startswith("localhost cannot be reached: ")
        assert receiver.got == []
        trusted = {"SSL_CERT_FILE": str(authority.file)}
        assert outcome(webhook=url, environment=trusted) == ""
        # The certificate is one of another name.
        by_address = f"https://127.0.0.1:{receiver.server_port}/"
        assert outcome(webhook=by_address, environment=trusted).startswith("127.0.0.1 cannot be reached: ")
    assert len(receiver.got) == 1
