"""Checkers of a server that runs: what a reload, and time, does to sessions."""

from pathlib import Path
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.errors import ConfigError
from bussrv.policy.logins.identity import Identity
from bussrv.policy.logins.tokens import token_line
from bussrv.server.configuration import plugins
from bussrv.server.running.identity import LOOK, Checkers
from tests.formats.network import Member, Network, Watcher
from tests.logins import USERS, at_once
from tests.server.configs import configured

SECOND = 1_000_000


class Scene:
    """A server in memory with a file of users and one of tokens."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.network = Network()
        self.network.bus.identity = Identity(self.network.reactor, at_once)
        self.checkers = Checkers(self.network.bus.identity, self.network.bus, self.network.reactor)
        self.write("users", *(f"{user}:{known}" for user, known in USERS.items()))
        self.write("tokens")

    def write(self, name: str, *lines: str) -> None:
        path = self.directory / name
        path.write_text("".join(f"{line}\n" for line in lines))
        path.chmod(0o600)

    def token(self, token: str, user: str = "ann", seconds: float | None = None) -> str:
        utc = self.network.bus.utc()
        return token_line(user, token, None if seconds is None else utc + int(seconds * SECOND))

    def use(self, *names: str) -> None:
        given = [f"{name}:{self.directory / name}" for name in names]
        self.checkers.prepare(configured({"auth": given}) if given else configured({}))()

    def member(self, **credentials: Any) -> Member:
        member = Member(self.network.connect("objects"))
        member.send({"event": "routing/subscribe", **credentials})
        return member

    def ends(self) -> list[tuple[str | None, str | None]]:
        return [(each.actor, each.reason) for each in self.network.events(ev.SessionClosed)]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_session_ends_when_its_token_expires(scene: Scene) -> None:
    scene.write("tokens", scene.token("short", "ann", 90), scene.token("long", "bob", 900), scene.token("ever", "eve"))
    scene.use("tokens")
    members = [scene.member(token=token) for token in ("short", "long", "ever")]
    scene.network.reactor.advance(89)
    assert [each.connection.is_open for each in members] == [True] * 3
    scene.network.reactor.pump([1.0, 0.0])
    assert [each.connection.is_open for each in members] == [False, True, True]
    assert members[0].heads()[-1]["reason"] == "user-withdrawn"
    late = scene.member(token="short")
    assert late.heads()[-1]["reason"] == "bad-credentials"
    (failed,) = scene.network.events(ev.AuthFailed)
    assert (failed.reason, failed.claimed, failed.method) == ("token-expired", "ann", "token")
    for _ in range(15):
        scene.network.reactor.advance(LOOK)
    assert [each.connection.is_open for each in members] == [False, False, True]
    assert scene.ends()[:1] == [("ann", "user-withdrawn")]
    assert ("bob", "user-withdrawn") in scene.ends()
    scene.checkers.stop()


def test_a_session_ends_at_the_reload_after_its_proof_went(scene: Scene) -> None:
    one, two = scene.token("one"), scene.token("two")
    scene.write("tokens", one, two)
    scene.use("users", "tokens")
    by_secret = scene.member(user="ann", secret="s3cret")
    by_one, by_two = (scene.member(token=token) for token in ("one", "two"))
    watcher = scene.network.watcher()
    watcher.connection.send_bytes(b"\0\0\0\x20\0\0\0\x0b\0\0\0\0\0\0\0\x03one")
    everybody = [by_secret, by_one, by_two, watcher]

    def left() -> list[bool]:
        scene.network.reactor.advance(0)
        return [each.connection.is_open for each in everybody]

    scene.use("users", "tokens")
    assert left() == [True] * 4
    scene.write("tokens", two)
    scene.use("users", "tokens")
    assert left() == [True, False, True, False]
    scene.write("users", f"ann:{USERS['ann'].made_of(b'another')}")
    scene.use("users", "tokens")
    assert left() == [False, False, True, False]
    scene.use("users")
    assert left() == [False] * 4
    assert set(scene.ends()) == {("ann", "user-withdrawn")}


def test_with_a_fault_nothing_changes(scene: Scene) -> None:
    scene.use("users", "tokens")
    member = scene.member(user="ann", secret="s3cret")
    scene.write("tokens", "ann")
    scene.write("users", "bob")
    with pytest.raises(ConfigError) as fault:
        scene.use("users", "tokens")
    assert [each.partition(", line 1:")[0] for each in fault.value.sentences] == [
        f"--auth: {scene.directory / name}" for name in ("users", "tokens")
    ]
    assert member.connection.is_open
    assert scene.member(user="ann", secret="s3cret").names() == ["routing/subscribe/reply"]


def test_a_first_checker_ends_sessions_and_without_one_all_enter(scene: Scene) -> None:
    member, watcher = scene.member(), scene.network.watcher()
    scene.use("users")
    scene.network.reactor.advance(0)
    assert (member.connection.is_open, watcher.connection.is_open) == (False, False)
    assert scene.ends() == [(None, "not-authenticated")] * 2
    assert member.heads()[-1]["reason"] == "not-authenticated"
    waiting = Watcher(scene.network.connect("spp"))
    scene.use("users")
    scene.network.reactor.advance(0)
    assert waiting.connection.is_open
    scene.use()
    assert scene.member().names() == ["routing/subscribe/reply"]


class NoName:
    """A plugin that fails to say its name."""

    @property
    def authType(self) -> str:
        raise ZeroDivisionError


class NoKinds(NoName):
    """A plugin of a checker that does not say what it takes."""

    authType = "odd"  # type: ignore[assignment]  # noqa: N815 - the name that Twisted asks for

    def generateChecker(self, argument: str) -> object:
        return object()


def test_a_checker_that_lacks_something_is_one_sentence(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "getPlugins", lambda interface: [NoName(), NoKinds()])
    with pytest.raises(ConfigError, match="the checker 'odd' refuses what follows its name: AttributeError"):
        scene.checkers.prepare(configured({"auth": ["odd:x"]}))
