"""The configuration, read again by a running server: all of it is put into effect, or nothing changes."""

from __future__ import annotations

import gc
import os
import signal
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import fields
from ipaddress import ip_network
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
import pytest_twisted
from msgspec.structs import replace
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall, deferLater
from twisted.internet.threads import deferToThread
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from bussrv import events as ev
from bussrv import options as kinds
from bussrv.admin.interfaces import Reloaded
from bussrv.client.business import BusinessClient
from bussrv.client.objects import BusError, ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.journal.reading import read_journal
from bussrv.journal.record import Stamped
from bussrv.net.tls.connection import TlsConnection
from bussrv.options import Option, rows
from bussrv.policy.logins.tokens import TOKENS_FILE, add_token
from bussrv.policy.logins.users import SecretHash
from bussrv.registry.interfaces import IRegistryObserver
from bussrv.server.configuration import config
from bussrv.server.configuration.config import Config
from bussrv.server.configuration.option_table import table
from bussrv.server.configuration.option_texts import toml_value
from bussrv.server.configuration.sources import of_command_line
from bussrv.server.running.service import BusService
from bussrv.settings import Settings
from bussrv.testing.server import FREE_PORTS, PATIENCE, TWISTD
from bussrv.values import InEffect
from tests.attacks.test_d1_signals import read, until
from tests.certificates import self_signed
from tests.server.configs import FORMATS, SERVICES

FREE = dict.fromkeys(("objects", "business", "inbus", "spp"), "0")
FILE = "bus.toml"


@implementer(IRegistryObserver)
class Next:
    """Waits for the next events of a kind.

    :ivar came: fires with them, not before whoever asked for the last one has gone on.
    """

    def __init__(self, server: BusService, kind: type[ev.Event], number: int = 1) -> None:
        self._kind = kind
        self._number = number
        self._seen: list[ev.Event] = []
        self.came: Deferred[list[ev.Event]] = Deferred()
        server.registry.observe(self)

    def registry_changed(self, stamped: Stamped) -> None:
        if isinstance(stamped.event, self._kind):
            self._seen.append(stamped.event)
            if len(self._seen) == self._number:
                reactor.callLater(0, self.came.callback, self._seen)


@asynccontextmanager
async def connected(kind: Callable[..., Any], port: int) -> AsyncIterator[Any]:
    """A blocking client. Each call of it waits for the reactor, so it is made in a thread."""
    client = await deferToThread(kind, port=port)
    try:
        yield client
    finally:
        await deferToThread(client.close)


class Running:
    """A server in this process, with a configuration file.

    :ivar said: what it has logged.
    """

    def __init__(self, directory: Path, text: str, **options: str) -> None:
        self.file = directory / FILE
        self.journal = directory / "journal"
        self.said: list[str] = []
        self._given = of_command_line({**FREE, "journal": str(self.journal), "config": str(self.file), **options})
        self.write(text)
        self.server = BusService(self._read(), FORMATS, reactor, services=SERVICES, read=self._read)
        self.server.startService()
        globalLogPublisher.addObserver(self._hear)

    def _read(self) -> Config:
        return config.build(self._given, FORMATS, SERVICES)

    def _hear(self, event: LogEvent) -> None:
        self.said.append(formatEvent(event))

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def reload(self, text: str | None = None) -> None:
        if text is not None:
            self.write(text)
        self.server.reload()

    def port(self, name: str) -> int:
        return int(self.server.listeners[name].address.rpartition(":")[2])

    def outcome(self) -> object:
        reload: Any = self.server.bus.reports()["reload"]
        return reload.get("outcome")

    async def stop(self) -> list[ev.Event]:
        """Stop. Returns what the journal says of reloads, without the rules in effect, which each of them has."""
        globalLogPublisher.removeObserver(self._hear)
        await self.server.stopService()
        events = [record.event for record in read_journal(self.journal)]
        told = [each for each in events if isinstance(each, (ev.ServerStarted, ev.ConfigReloaded))]
        assert all(each.in_effect is not None and each.in_effect.limits for each in told)
        self.in_effect = [each.in_effect for each in told]
        reloads = [each for each in events if isinstance(each, (ev.ConfigReloaded, ev.ConfigReloadFailed))]
        return [replace(each, in_effect=None) if isinstance(each, ev.ConfigReloaded) else each for each in reloads]


@pytest_twisted.ensureDeferred
async def test_options_take_effect_and_their_names_are_told(tmp_path: Path) -> None:
    running = Running(tmp_path, "max-services = 3")
    assert running.server.bus.reports()["reload"] == {}

    def register(client: ObjectsClient, name: str) -> str:
        try:
            client.register(name)
        except BusError as error:
            return error.reason
        return ""

    async with connected(ObjectsClient, running.port("objects")) as client:
        await deferToThread(client.subscribe)
        assert [await deferToThread(register, client, name) for name in "abcd"] == ["", "", "", "too-many-services"]
        running.reload('max-services = 4\nmax-payload = 9\ntrusted-network = "10.0.0.0/8"')
        assert running.outcome() == "ok"
        assert [await deferToThread(register, client, name) for name in "de"] == ["", "too-many-services"]
        # The client was connected all the time.
        assert await deferToThread(client.discover, "a")
    assert "reloaded the configuration; changed: trusted-network, max-services" in running.said
    assert "restart to change: max-payload" in running.said
    assert running.server.bus.settings.max_payload == Settings().max_payload
    running.reload()
    assert "reloaded the configuration; changed: no option" in running.said
    assert running.said.count("restart to change: max-payload") == 2
    assert await running.stop() == [
        ev.ConfigReloaded(changed=("trusted-network", "max-services")),
        ev.ConfigReloaded(),
    ]


@pytest_twisted.ensureDeferred
async def test_the_number_of_sessions_and_strictness_change(tmp_path: Path) -> None:
    running = Running(tmp_path, "max-sessions = 2")
    port = running.port("objects")
    async with connected(ObjectsClient, port) as first:
        await deferToThread(first.subscribe)
        with pytest.raises(ConnectionError, match="too-many-sessions"):
            async with connected(ObjectsClient, port) as second:
                await deferToThread(second.subscribe)
        running.reload("max-sessions = 3\nstrict = true")
        assert running.server.bus.settings.max_sessions == 3
        async with connected(ObjectsClient, port) as second:
            await deferToThread(second.subscribe)
            await deferToThread(second.send, {"id": 1}, b"payload")
            answer = await deferToThread(second.receive, PATIENCE)
            assert answer.metadata["reason"] == "missing-type"
    await running.stop()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("max-services = 7\nmax-links = ", f"{FILE}:2: not TOML: "),
        ("max-services = 7\nmax-links = 0", f"{FILE}:2: max-links: 0 is not a whole number"),
        ("max-services = 7\nno-such = 0", f"{FILE}:2: there is no option 'no-such'"),
        ('max-services = 7\nlink = ["tcp:a:1", "tcp:b:99999"]', f"{FILE}:2: link: 'tcp:b:99999' is not a client"),
        ('max-services = 7\njournal-key = "/nowhere"', f"{FILE}:2: journal-key: there is no key /nowhere"),
        ('max-services = 7\nauth = "users:/nowhere"', f"{FILE}:2: auth: cannot read the users in /nowhere"),
        (None, "cannot read"),
    ],
)
@pytest_twisted.ensureDeferred
async def test_a_fault_leaves_everything_as_it_was(tmp_path: Path, text: str | None, fault: str) -> None:
    running = Running(tmp_path, "max-services = 3")
    if text is None:
        running.file.unlink()
    running.reload(text)
    assert running.outcome() == "failed"
    assert running.server.bus.settings.max_services == 3
    assert running.server.bus.links.neighbors() == []
    assert any(each.startswith("not reloaded: ") and fault in each for each in running.said)
    (event,) = await running.stop()
    assert isinstance(event, ev.ConfigReloadFailed)
    assert fault in event.message


def user(name: str, secret: bytes) -> str:
    return f"{name}:{SecretHash(b'salt', bytes(32), 2, 8, 1).made_of(secret)}\n"


@pytest_twisted.ensureDeferred
async def test_certificates_and_users_are_read_again_together(tmp_path: Path) -> None:
    key, certificate = self_signed(tmp_path / "tls")
    users = tmp_path / "users"
    users.write_text(user("ann", b"one") + "\n")
    users.chmod(0o600)
    tls = f"ssl:0:privateKey={key}:certKey={certificate}:interface=127.0.0.1"
    running = Running(tmp_path, f'auth = "users:{users}"', objects=tls)

    async def served() -> str:
        return await deferToThread(ssl.get_server_certificate, ("127.0.0.1", running.port("objects")))

    async def accepted(user: str, secret: str) -> bool:
        async with connected(SppClient, running.port("spp")) as client:
            try:
                await deferToThread(client.authenticate, user, secret)
            except PermissionError:
                return False
            return True

    first = await served()
    assert await accepted("ann", "one")
    # One of the two cannot be used, so neither is.
    certificate.write_text("none")
    users.write_text(user("bob", b"two") + "\n")
    running.reload()
    assert running.outcome() == "failed"
    assert await served() == first
    assert await accepted("ann", "one")
    self_signed(tmp_path / "tls")
    key.chmod(0o644)
    running.reload()
    assert running.outcome() == "failed"
    key.chmod(0o600)
    running.reload()
    assert running.outcome() == "ok"
    assert await served() != first
    assert await accepted("bob", "two")
    assert not await accepted("ann", "one")
    outcomes = await running.stop()
    assert [type(each) for each in outcomes] == [ev.ConfigReloadFailed, ev.ConfigReloadFailed, ev.ConfigReloaded]


@pytest_twisted.ensureDeferred
async def test_an_exposed_port_keeps_an_identity(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(user("ann", b"one") + "\n")
    users.chmod(0o600)
    running = Running(tmp_path, f'auth = "users:{users}"', objects="tcp:0")
    running.reload("objects = 7890")
    assert running.outcome() == "failed"
    assert running.server.bus.access.asks
    assert any("--objects: everybody who reaches this machine could use it" in each for each in running.said)
    await running.stop()


@pytest_twisted.ensureDeferred
async def test_sessions_of_users_who_are_gone_end(tmp_path: Path) -> None:
    users = tmp_path / "users"
    kept = [user("ann", b"one"), user("eve", b"two")]
    users.write_text("\n".join([*kept, user("bob", b"three"), user("cy", b"four")]))
    users.chmod(0o600)
    running = Running(tmp_path, f'auth = "users:{users}"')
    secrets = {"ann": "one", "bob": "three", "cy": "four"}
    clients = [await deferToThread(SppClient, port=running.port("spp")) for _ in secrets]
    for client, (name, secret) in zip(clients, secrets.items(), strict=True):
        await deferToThread(client.authenticate, name, secret)
    opened = Next(running.server, ev.SessionOpened)
    nobody = await deferToThread(SppClient, port=running.port("spp"))
    await opened.came
    ended = Next(running.server, ev.SessionClosed, 2)
    users.write_text("\n".join([*kept, user("cy", b"another")]))
    running.reload()
    withdrawn = await ended.came
    assert {(each.actor, each.reason) for each in withdrawn} == {("bob", "user-withdrawn"), ("cy", "user-withdrawn")}
    left = [each.actor for each in running.server.registry.state.sessions.values() if each.protocol == "spp"]
    assert left == ["ann", None]
    for client in (*clients, nobody):
        await deferToThread(client.close)
    await running.stop()


@pytest_twisted.ensureDeferred
async def test_it_tells_what_took_effect(tmp_path: Path) -> None:
    """Although no option changed: files are other ones, and sessions end because of that."""
    key, certificate = self_signed(tmp_path / "tls")
    for name in ("tokens", "users", "policy", "journal.admin-token"):
        (tmp_path / name).touch(0o600)
    token = add_token(tmp_path / "tokens", "ann", None)
    add_token(tmp_path / "tokens", "ann", None)
    (tmp_path / "users").write_text(user("bob", b"two") + "\n")
    (tmp_path / "policy").write_text('[[rule]]\nusers = "*"\nprovide = "*"\nwatch = "*"\nobserve = "*"\n')
    (tmp_path / "own-token").touch(0o600)
    (tmp_path / "own-token").write_text("one\n")
    text = f'auth = ["tokens:{tmp_path}/tokens", "users:{tmp_path}/users"]\npolicy = "{tmp_path}/policy"\n'
    running = Running(
        tmp_path,
        f'{text}link-token = "{tmp_path}/own-token"\n',
        objects=f"ssl:0:privateKey={key}:certKey={certificate}:interface=127.0.0.1",
    )
    assert (await running.server.reload()) == Reloaded()
    # The session that ends provides nothing: whether the policy would be faster to take its services is left open.
    async with (
        connected(BusinessClient, running.port("business")) as ending,
        connected(BusinessClient, running.port("business")) as first,
    ):
        await deferToThread(ending.register, "all", token=token)
        await deferToThread(first.register, "all", user="bob", secret="two")
        await deferToThread(first.register_service, "door")
        async with connected(SppClient, running.port("spp")) as second:
            await deferToThread(second.authenticate, "bob", "two")
            subscribed = Next(running.server, ev.SubscriptionAdded)
            await deferToThread(second.subscribe, "door")
            await subscribed.came
            TOKENS_FILE.delete(tmp_path / "tokens", "ann")
            (tmp_path / "users").write_text(user("bob", b"two") + "\n" + user("cy", b"three") + "\n")
            (tmp_path / "policy").write_text('[[rule]]\nusers = "*"\nwatch = "lamp"\n')
            (tmp_path / "own-token").write_text("two\n")
            self_signed(tmp_path / "tls")
            outcome = await running.server.reload()
    assert outcome is not None
    assert (outcome.changed, outcome.faults) == ((), ())
    valid, *others = outcome.effects
    assert valid.startswith(f"objects: {certificate}: valid until 20")
    assert others == [
        f"tokens:{tmp_path}/tokens: 2 removed",
        f"users:{tmp_path}/users: 1 added",
        f"policy {tmp_path}/policy: rules: 1",
        f"token in {tmp_path}/own-token: another one",
        "1 session ended",
        "1 service withdrawn",
        "1 subscription withdrawn",
    ]
    assert f"reloaded the configuration; changed: no option; {'; '.join((valid, *others[:-3]))}" in running.said
    assert "because of the reload: 1 session ended, 1 service withdrawn, 1 subscription withdrawn" in running.said
    await running.stop()


@pytest_twisted.ensureDeferred
async def test_a_handshake_that_is_not_done_keeps_nobody_in(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(user("ann", b"one"))
    users.chmod(0o600)
    key, certificate = self_signed(tmp_path / "tls")
    tls = f"ssl:0:privateKey={key}:certKey={certificate}:interface=127.0.0.1"
    running = Running(tmp_path, f'auth = "users:{users}"', business=tls)
    streams = running.server.bus.streams
    with socket.create_connection(("127.0.0.1", running.port("business"))):
        async with connected(SppClient, running.port("spp")) as client:
            await deferToThread(client.authenticate, "ann", "one")
            while not any(isinstance(each, TlsConnection) for kept in streams.connections for each in kept):
                await deferLater(reactor, 0)
            users.write_text("")
            ended = Next(running.server, ev.SessionClosed)
            running.reload()
            assert [each.reason for each in await ended.came] == ["user-withdrawn"]
    await running.stop()


@pytest_twisted.ensureDeferred
async def test_links_are_dialed_and_hung_up(tmp_path: Path) -> None:
    for name in ("near", "far"):
        (tmp_path / name).mkdir()
    far = Running(tmp_path / "far", 'link-allow = "127.0.0.1"\nserver-id = "far"')
    near = Running(tmp_path / "near", "")
    linked, lost = Next(near.server, ev.LinkUp), Next(near.server, ev.LinkDown)
    near.reload(f'link = ["tcp:127.0.0.1:{far.port("objects")}"]')
    await linked.came
    await deferLater(reactor, 0)
    assert near.server.bus.links.neighbors() == ["far"]
    near.reload()
    assert near.server.bus.links.neighbors() == ["far"]
    near.reload("link = []")
    await lost.came
    await deferLater(reactor, 0)
    assert (near.server.bus.links.neighbors(), near.server.bus.links.missing()) == ([], [])
    changed = [each.changed for each in await near.stop() if isinstance(each, ev.ConfigReloaded)]
    written = [record.event for record in read_journal(near.journal)]
    assert changed == [("link",), (), ("link",)]
    gone = [(type(each), each.routing_id) for each in written if isinstance(each, (ev.LinkDown, ev.LinkForgotten))]
    assert sorted(gone, key=repr) == [(ev.LinkDown, "far"), (ev.LinkForgotten, "far")]
    await far.stop()


@pytest_twisted.ensureDeferred
async def test_certificates_of_a_link_that_is_removed_do_not_count(tmp_path: Path) -> None:
    _, certificate = self_signed(tmp_path / "tls")
    link = f'link = "tls:127.0.0.1:1:trustRoots={certificate}"'
    running = Running(tmp_path, link)
    assert "link 127.0.0.1:1" in str(running.server.bus.reports()["certificates"])
    certificate.unlink()
    running.reload()
    assert running.outcome() == "failed"
    running.reload("")
    assert running.outcome() == "ok"
    assert "link 127.0.0.1:1" not in str(running.server.bus.reports()["certificates"])
    await running.stop()


# No part keeps a copy of an old value.
NUMBERED = tuple(
    each
    for each in rows(Settings)
    # The number of sessions is lowered to what the system allows.
    if each.reloadable
    and each.name not in ("max-sessions", "websocket-origin", "expect-link")
    and isinstance(each.kind, (kinds.Whole, kinds.Seconds, kinds.ListOf))
)


def valued(option: Option, number: int) -> Any:
    """A value of an option that nothing else has."""
    if isinstance(option.kind, kinds.Whole):
        return 1_234_567_000 + number
    if isinstance(option.kind, kinds.Seconds):
        return 54_321.015625 + number
    return [f"203.0.113.{number}"]


def file_of(first: int) -> str:
    lines = (f"{each.name} = {toml_value(valued(each, n))}\n" for n, each in enumerate(NUMBERED, first))
    return "".join(lines)


def settings_of(first: int) -> dict[Any, str]:
    values = {each.kind.check(valued(each, n)): each.name for n, each in enumerate(NUMBERED, first)}
    return {(each[0] if isinstance(each, tuple) else each): name for each, name in values.items()}


def kept(root: object, wanted: dict[Any, str]) -> set[str]:
    """The options whose values some part of the server holds."""
    found: set[str] = set()
    seen: set[int] = set()
    waiting: list[Any] = [root]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or each is reactor or isinstance(each, (type, ModuleType, Config, InEffect)):
            # What the server was started with, and what the journal was told: nothing reads settings from them.
            continue
        seen.add(id(each))
        if type(each) in (int, float, type(ip_network("10.0.0.1"))):
            found |= {wanted[each]} if each in wanted else set()
        elif isinstance(each, FunctionType):
            waiting += [each.__closure__, each.__defaults__, each.__kwdefaults__]
        else:
            waiting += gc.get_referents(each)
    return found


@pytest_twisted.ensureDeferred
async def test_no_part_holds_a_copy_of_an_old_value(tmp_path: Path) -> None:
    names = {each.name for each in NUMBERED}
    running = Running(tmp_path, file_of(1), link="tcp:127.0.0.1:1")
    objects = await deferToThread(ObjectsClient, port=running.port("objects"))
    business = await deferToThread(BusinessClient, port=running.port("business"))
    watcher = await deferToThread(SppClient, port=running.port("spp"))
    await deferToThread(objects.subscribe)
    await deferToThread(business.register)
    old, new = settings_of(1), settings_of(101)
    assert kept(running.server, old) == names
    assert kept(running.server, new) == set()
    running.reload(file_of(101))
    assert running.outcome() == "ok"
    assert kept(running.server, old) == set()
    assert kept(running.server, new) == names
    for client in (objects, business, watcher):
        await deferToThread(client.close)
    (reloaded,) = await running.stop()
    assert isinstance(reloaded, ev.ConfigReloaded)
    assert set(reloaded.changed) == names


def test_every_option_that_a_reload_changes_is_shown_to() -> None:
    # The other kinds have too few values for the test above. All of these are read when they are needed.
    others = {each.name for each in table(FORMATS, SERVICES) if each.reloadable} - {each.name for each in NUMBERED}
    assert others == {
        *("strict", "link", "link-token", "link-user", "auth", "inbus-user", "policy", "log-level", "max-sessions"),
        *("admin-host", "admin-token-file", "audit-summary", "websocket-origin", "expect-link"),
        *("admin-peer", "admin-peer-ca", "admin-peer-token-file", "incident-webhook", "on-incident", "witness"),
        "witness-for",
    }


def test_only_reloadable_settings_are_exchanged_all_at_once() -> None:
    before, after = Settings(), Settings(max_services=1, max_payload=1, strict=True)
    before.reload(after)
    differing = {each.name for each in fields(Settings) if getattr(before, each.name) != getattr(after, each.name)}
    assert differing == {"max_payload"}


# Hostile.
@pytest_twisted.ensureDeferred
async def test_reloads_every_10_ms_under_load_lose_nothing(tmp_path: Path) -> None:
    good, half = "max-services = 5\nmax-links = 7\n", "max-services = 6\nmax-li"
    running = Running(tmp_path, good)
    counted: list[str] = []

    def again() -> None:
        running.reload(half if len(counted) % 2 else good)
        counted.append(str(running.outcome()))
        assert running.server.bus.settings.max_services == 5

    def load() -> list[int]:
        with (
            ObjectsClient(port=running.port("objects")) as sender,
            ObjectsClient(port=running.port("objects")) as taker,
        ):
            taker.subscribe(receive_mode="no_echo", types=["text/*"])
            sender.subscribe()
            taken: list[int] = []
            while len(counted) < 40:
                for number in range(len(taken), len(taken) + 100):
                    sender.send({"type": "text/plain"}, b"%d" % number)
                while len(taken) % 100 or len(taken) < number:
                    # Members that join are announced, without a payload.
                    taken += [int(each) for each in [taker.receive(PATIENCE).payload] if each]
            return taken

    reloading = LoopingCall(again)
    ended = reloading.start(0.01)
    reloadables = len(running.server.bus.reloadables)
    taken = await deferToThread(load)
    reloading.stop()
    await ended
    assert taken == list(range(len(taken)))
    assert len(running.server.bus.reloadables) == reloadables
    assert counted == ["ok" if n % 2 == 0 else "failed" for n in range(len(counted))]
    assert len(await running.stop()) == len(counted)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        command = [*TWISTD, "-n", "--pidfile=", f"--logfile={tmp_path / 'log'}", "bussrv", *FREE_PORTS]
        command += ["--config", FILE, "--journal", "journal", "--max-links", "3"]
        variables = {**os.environ, "BUSSRV_MAX_CONNECTS": "9"}
        started.append(subprocess.Popen(command, cwd=tmp_path, env=variables, start_new_session=True))
        until(lambda: "bussrv is ready" in read(tmp_path / "log"))
        return started[-1]

    yield start
    for each in started:
        if each.poll() is None:
            each.kill()
        each.wait()


@pytest.mark.processes
def test_after_sighup_the_file_is_still_overridden(
    process: Callable[[], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    (tmp_path / FILE).write_text("max-services = 4\n")
    server = process()
    (tmp_path / FILE).write_text("max-services = 5\nmax-links = 5\nmax-connects = 5\nmax-patterns = 5\n")
    server.send_signal(signal.SIGHUP)
    until(lambda: "changed: max-services, max-patterns" in read(tmp_path / "log"))
    (tmp_path / FILE).write_text("max-services = ")
    server.send_signal(signal.SIGHUP)
    until(lambda: "nothing has changed" in read(tmp_path / "log"))
    assert read(tmp_path / "log").count("re-opened the log file") == 2
    quiet = "max-services = 5\nmax-patterns = 5\nlog-level = 'error'\n"
    (tmp_path / FILE).write_text(quiet)
    server.send_signal(signal.SIGHUP)

    def reloads() -> list[tuple[str, ...]]:
        events = [each.event for each in read_journal(tmp_path / "journal")]
        return [each.changed for each in events if isinstance(each, ev.ConfigReloaded)]

    until(lambda: ("log-level",) in reloads())
    server.terminate()
    assert server.wait(PATIENCE) == 0
    assert "bussrv stopped" not in read(tmp_path / "log")
    assert "restart to change" not in read(tmp_path / "log")
    assert "the configuration cannot be read again" not in read(tmp_path / "log")
    told = [each.event for each in read_journal(tmp_path / "journal")]
    assert ("max-services", "max-patterns") in reloads()
    assert ev.ConfigReloadFailed in map(type, told)
