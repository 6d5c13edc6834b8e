"""The admin interface as a part of the server: its port, its token file, exposure, reload, check and TLS."""

from __future__ import annotations

import errno
import http.client
import json
import os
import signal
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.error import CannotListenError
from twisted.internet.testing import MemoryReactorClock

from bussrv.bus.bus import Bus
from bussrv.journal.memory import MemoryJournal
from bussrv.policy.logins.users import user_line
from bussrv.registry.changes.registry import Registry
from bussrv.server.configuration.check import unstarted
from bussrv.server.configuration.config import Config
from bussrv.server.running.admin import AdminInterface
from bussrv.settings import Settings
from bussrv.turns.clock import SystemClock
from tests.end_to_end.test_bad_start import run
from tests.forked import ForkedServer, refused_start
from tests.net.tls.tls_clients import Place
from tests.server.configs import configured

EVERYWHERE = "tcp:0:interface=0.0.0.0"


def interface(config: Config, reactor: Any) -> AdminInterface:
    registry = Registry(MemoryJournal(), SystemClock(), lambda: "id", server_id="hall", boot="boot")
    bus = Bus(registry, Settings(), "hall", lambda: "id", SystemClock(), reactor)
    faults: list[str] = []
    made = AdminInterface(config, unstarted(bus, reactor), faults)
    assert faults == []
    return made


class Busy(MemoryReactorClock):
    """Every port of it is taken."""

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Any:
        raise CannotListenError(interface, port, OSError(errno.EADDRINUSE, "Address already in use"))


def test_a_busy_default_port_is_a_warning_a_given_one_a_fault() -> None:
    by_default, given = configured({}), configured({"admin": "7280"})
    assert by_default.admin == given.admin == "tcp:7280:interface=127.0.0.1"
    faults: list[str] = []
    made = interface(by_default, Busy())
    made.open(by_default, faults)
    assert (made.port, faults) == (None, [])
    interface(given, Busy()).open(given, faults)
    assert faults == ["--admin: cannot listen on 127.0.0.1, port 7280: Address already in use"]
    assert interface(configured({"admin": "off"}), Busy()).port is None


# Processes.


def ask(server: ForkedServer, path: str, method: str = "GET", **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(*server.addresses["admin"], timeout=30)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, json.loads(body) if body else None


def reload(server: ForkedServer, token: str) -> int:
    return ask(server, "/api/v1/reload", "POST", Authorization=f"Bearer {token}", Content_Type="application/json")[0]


@pytest.mark.processes
def test_the_token_file_is_made_kept_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "journal.admin-token"
    with ForkedServer(tmp_path / "journal") as server:
        token = file.read_text().strip()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert len(token) > 40
        assert reload(server, "wrong") == 401
        assert reload(server, token) == 200
        file.write_text("another-token\n")
        assert reload(server, token) == 200
        assert reload(server, token) == 401
        assert reload(server, "another-token") == 200
        file.chmod(0o644)
        assert reload(server, "another-token") == 409
        file.unlink()
        assert reload(server, "another-token") == 200
        assert reload(server, file.read_text().strip()) == 200
        assert server.stop() == 0
        assert not any(token in line for line in server.lines)
    kept = file.read_text()
    with ForkedServer(tmp_path / "journal") as server:
        assert file.read_text() == kept


@pytest.mark.processes
def test_there_is_no_token_without_a_place_or_a_need_for_one(tmp_path: Path) -> None:
    (tmp_path / "users").write_text(user_line("ann", b"secret") + "\n")
    with ForkedServer("off", ["--auth", f"users:{tmp_path / 'users'}"]) as asking, ForkedServer("off") as server:
        assert ask(asking, "/api/v1/server")[0] == 401
        status, shown = ask(server, "/api/v1/server")
        assert (status, shown["permissions"]) == (200, {"read": True, "write": False})
        assert ask(server, "/api/v1/journal")[0] == 404
        assert reload(server, "anything") == 401
    assert list(tmp_path.iterdir()) == [tmp_path / "users"]
    with ForkedServer("off", ["--admin-token-file", str(tmp_path / "token")]) as server:
        assert reload(server, (tmp_path / "token").read_text().strip()) == 200


@pytest.mark.processes
@pytest.mark.parametrize("wrong", ["readable by others", "no token", "a directory", "of somebody else"])
def test_a_token_file_that_cannot_be_used_stops_the_start(wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    if wrong == "a directory":
        file.mkdir()
    else:
        file.write_text("two words\n" if wrong == "no token" else "token\n")
        file.chmod(0o640 if wrong == "readable by others" else 0o600)
    if wrong == "of somebody else":
        if os.geteuid() != 0:
            pytest.skip("only root can give a file away")
        os.chown(file, 12345, 12345)
    said = refused_start(tmp_path, "--journal", "off", "--admin-token-file", str(file))
    assert said.startswith(f"bussrv: --admin-token-file: {file}: ")


@pytest.mark.processes
def test_an_exposed_interface_needs_an_identity(tmp_path: Path) -> None:
    ended = run(tmp_path, ["--journal", "off", "--admin", EVERYWHERE])
    assert ended.returncode == 1
    assert ended.stderr.startswith("bussrv: --admin: everybody who reaches ")
    (tmp_path / "users").write_text(user_line("ann", b"secret") + "\n")
    with ForkedServer("off", ["--admin", EVERYWHERE, "--auth", f"users:{tmp_path / 'users'}"]) as server:
        assert any("admin listens on every interface without TLS" in line for line in server.lines)
    with ForkedServer("off", ["--admin", EVERYWHERE, "--insecure"]) as server:
        assert any("admin listens on every interface, and everybody" in line for line in server.lines)


@pytest.mark.processes
def test_names_of_the_server_are_read_again(tmp_path: Path) -> None:
    file = tmp_path / "bus.toml"
    file.write_text('admin-host = "hall.example"\n')
    with ForkedServer("off", ["--config", str(file)]) as server:
        assert ask(server, "/api/v1/server", Host="hall.example")[0] == 200
        file.write_text('admin-host = ["barn.example"]\n')
        server.process.send_signal(signal.SIGHUP)
        while "reloaded the configuration" not in server.next_line():
            pass
        assert ask(server, "/api/v1/server", Host="hall.example")[0] == 421
        assert ask(server, "/api/v1/server", Host="BARN.example:1")[0] == 200


@pytest.mark.processes
def test_it_speaks_tls_and_knows_clients_by_their_certificates(tmp_path: Path) -> None:
    place = Place(tmp_path)
    endpoint = f"{place.port}:clientCA={place.authority.file}:clientCert=optional"
    ann = place.authority.pair(tmp_path / "ann")
    with ForkedServer("off", ["--admin", endpoint, "--auth", "certificates:cn"]) as server:
        for pair, status in ((ann, 200), (None, 401)):
            context = ssl.create_default_context(cafile=place.authority.file)
            if pair is not None:
                context.load_cert_chain(pair.certificate, pair.key)
            port = server.port("admin")
            connection = http.client.HTTPSConnection("localhost", port, timeout=30, context=context)
            for path in ("/api/v1/server", "/api/v1/limits?limit=1000", "/api/v1/openapi.json", "/api/v1/server"):
                connection.request("GET", path)
                answer = connection.getresponse()
                body = answer.read()
                expected = 200 if path.endswith("openapi.json") else status
                assert (answer.status, json.loads(body) is not None) == (expected, True)
            connection.close()
        assert server.stop() == 0
    assert not any("Traceback" in line for line in server.lines)


@pytest.mark.processes
def test_the_history_outlives_the_server(tmp_path: Path) -> None:
    """It is saved when the server stops, and has both starts then."""
    for starts in (1, 2):
        with ForkedServer(tmp_path / "journal") as server:
            status, found = ask(server, "/api/v1/history?since=-3600")
            assert status == 200
            assert [each["kind"] for each in found["marks"]] == ["started"] * starts
            assert server.stop() == 0
    assert stat.S_IMODE((tmp_path / "journal.history").stat().st_mode) == 0o600
