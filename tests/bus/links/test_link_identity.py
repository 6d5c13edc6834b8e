"""Each side of a link proves who it is, and no token crosses a link in the clear."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import LogEvent, formatEvent, globalLogPublisher

from bussrv import events as ev
from bussrv.errors import ConfigError
from bussrv.formats.objects.dialing import LinkDialer, make_dialer
from bussrv.formats.objects.server_link import LINK
from bussrv.journal.record import encode_event
from bussrv.net.tls.link_tokens import TokenFile
from bussrv.policy.logins.checkers import CertificateUsers, Tokens
from bussrv.policy.logins.identity import Identity
from bussrv.policy.logins.tokens import PREFIX, TokenUse, digest
from bussrv.policy.permissions.file import parse_policy
from tests.bus.links.fabric import Cable, Fabric
from tests.bus.links.fabric import ask as ask_to_link
from tests.formats.network import Network
from tests.logins import ask, at_once
from tests.tables import each_row

ATTICS, HALLS, NOBODYS = (PREFIX + letter * 43 for letter in "ahn")
EVERYWHERE = (ip_network("0.0.0.0/0"),)
BOTH: list[list[str]] = [["attic"], ["hall"]]
NEITHER: list[list[str]] = [[], []]


class Secured:
    """The TLS of a connection."""

    def getpeercert(self) -> dict[str, Any]:
        return {"subject": ((("commonName", "roof"),),)}


def asks(network: Network, *checkers: Any) -> None:
    """From now on a server takes these tokens, or what else proves who clients are."""
    identity = Identity(network.reactor, at_once)
    tokens = {digest(token): TokenUse(user) for user, token in (("attic", ATTICS), ("hall", HALLS))}
    identity.use([*checkers, Tokens(tokens)])
    ask(network, identity)


def stored(directory: Path, token: str, name: str = "token") -> TokenFile:
    path = directory / name
    path.touch(0o600)
    path.write_text(f"{token}\n")
    return TokenFile(path)


def linked(fabric: Fabric) -> bool:
    def neighbors() -> list[list[str]]:
        return [fabric[name].bus.links.neighbors() for name in ("hall", "attic")]

    fabric.settle(5)
    # An attempt may be under way just then: one server has the link already, and the other one is about to refuse it.
    fabric.run(1, until=lambda: neighbors() in (BOTH, NEITHER))
    assert neighbors() in (BOTH, NEITHER)
    return neighbors() == BOTH


def logins(network: Network) -> list[tuple[str | None, ...]]:
    tried = network.events(ev.AuthSucceeded, ev.AuthFailed)
    return [(each.actor, each.method, each.reason, each.peer) for each in tried]


def says_nothing_of_secrets(fabric: Fabric) -> None:
    for network in fabric.servers.values():
        for record in network.journal.records:
            for token in (ATTICS, HALLS, NOBODYS):
                assert token.encode() not in encode_event(record.event)


@pytest.fixture
def fabric() -> Iterator[Fabric]:
    """``attic`` dials ``hall``."""
    fabric = Fabric("hall", "attic", link_allow=EVERYWHERE)
    yield fabric
    says_nothing_of_secrets(fabric)


def test_a_token_proves_who_dials(fabric: Fabric, tmp_path: Path) -> None:
    asks(fabric["hall"])
    fabric.link("attic", "hall", token=stored(tmp_path, ATTICS))
    assert linked(fabric)
    assert logins(fabric["hall"]) == [("attic", "token", None, "127.0.0.1:1")]
    assert logins(fabric["attic"]) == []


@pytest.mark.parametrize(("token", "reason"), [(NOBODYS, "bad-credentials"), (None, None)])
def test_who_proves_nothing_does_not_link(
    fabric: Fabric, tmp_path: Path, token: str | None, reason: str | None
) -> None:
    asks(fabric["hall"])
    cable = fabric.link("attic", "hall", token=token and stored(tmp_path, token))
    assert not linked(fabric)
    assert 1 < len(cable.attempts) < 10
    assert {each[2] for each in logins(fabric["hall"])} == ({reason} if reason else set())
    ends = {each.reason for each in fabric["hall"].events(ev.SessionClosed)}
    assert ends == {reason or "not-authenticated"}


@pytest.mark.parametrize(("shown", "is_linked"), [(HALLS, True), (NOBODYS, False), (None, False)])
def test_who_is_dialed_proves_itself_too(fabric: Fabric, tmp_path: Path, shown: str | None, is_linked: bool) -> None:
    for name in ("hall", "attic"):
        asks(fabric[name])
    fabric["hall"].bus.links.use_token(shown and stored(tmp_path, shown))
    fabric.link("attic", "hall", token=stored(tmp_path, ATTICS, "of-attic"))
    assert linked(fabric) is is_linked
    if is_linked:
        assert logins(fabric["attic"]) == [("hall", "token", None, "127.0.0.1:1")]


def test_no_token_is_sent_in_the_clear(fabric: Fabric, tmp_path: Path) -> None:
    asks(fabric["hall"])
    cable = fabric.link("attic", "hall", token=stored(tmp_path, ATTICS), host="10.0.0.9")
    assert not linked(fabric)
    assert cable.attempts
    assert cable.sent == b""
    assert {each.reason for each in fabric["attic"].events(ev.SessionClosed)} == {"not-encrypted"}


def test_no_token_is_taken_in_the_clear(fabric: Fabric) -> None:
    hall = fabric["hall"]
    asks(hall)
    server, (error,) = ask_to_link(hall, "10.0.0.9", token=ATTICS, **{"routing-id": "attic"})
    assert not server.connection.is_open
    assert error["reason"] == "not-encrypted"
    assert logins(hall) == [(None, "token", "not-encrypted", "10.0.0.9:4711")]


@pytest.mark.parametrize("host", ["10.0.0.9", "127.0.0.1"])
def test_nothing_is_shown_in_the_clear_or_to_who_proved_nothing(fabric: Fabric, tmp_path: Path, host: str) -> None:
    """Over the network by its address alone, or on this machine to a server that was not asked who it is."""
    fabric["hall"].bus.links.use_token(stored(tmp_path, HALLS))
    if host == "10.0.0.9":
        identity = Identity(fabric.clock, at_once)
        identity.use([], networks={LINK: ((ip_network("10.0.0.0/8"), "deployed"),)})
        ask(fabric["hall"], identity)
    cable = fabric.link("attic", "hall", host=host)
    listening: list[bytes] = []
    connect = Cable.connect

    def recorded(self: Cable, factory: Any) -> Any:
        done = connect(self, factory)
        self._ends[1].record = listening.append  # type: ignore[method-assign]
        return done

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Cable, "connect", recorded)
        cable.unplug()
        cable.plug()
        assert linked(fabric)
    assert listening
    assert HALLS.encode() not in b"".join(listening)


@pytest.mark.parametrize(
    ("checkers", "actor"),
    [((), "hall.example"), ((CertificateUsers("cn"),), "roof"), ((CertificateUsers("dns"),), "hall.example")],
)
def test_a_dialed_server_is_its_tls_name_or_certificate_user(
    fabric: Fabric, tmp_path: Path, checkers: tuple[Any, ...], actor: str
) -> None:
    asks(fabric["hall"])
    asks(fabric["attic"], *checkers)
    cable = fabric.link("attic", "hall", token=stored(tmp_path, ATTICS), host="10.0.0.9", tls=Secured())
    (dialer,) = fabric.dialers
    dialer._factory._proves = dialer._factory._proves._replace(server_name="hall.example")
    cable.unplug()
    cable.plug()
    assert linked(fabric)
    assert logins(fabric["attic"]) == [(actor, "certificate", None, "10.0.0.9:1")]
    # A reload of the checkers ends no link because of a name that nobody can withdraw.
    assert fabric["hall"].events(ev.AuthSucceeded)[-1].actor == "attic"


@pytest.mark.parametrize(("network", "is_linked"), [("10.0.0.0/8", True), ("192.0.2.0/24", False)])
@pytest.mark.parametrize("asking", ["hall", "attic"])
def test_a_server_without_proof_may_be_known_by_its_network(
    fabric: Fabric, network: str, is_linked: bool, asking: str
) -> None:
    identity = Identity(fabric.clock, at_once)
    identity.use([Tokens({})], networks={LINK: ((ip_network(network), "deployed"),)})
    ask(fabric[asking], identity)
    fabric.link("attic", "hall", host="10.0.0.9")
    assert linked(fabric) is is_linked
    assert logins(fabric[asking]) == ([("deployed", "network", None, "10.0.0.9:1")] if is_linked else [])
    (proof,) = [each.identification.proof for each in connections(fabric[asking])] or [None]
    if is_linked:
        assert proof is not None
        assert identity.holds(proof)
        identity.use([])
        assert not identity.holds(proof)


def connections(network: Network) -> list[Any]:
    return [each for protocols in network.bus.streams.connections for each in protocols if not each.has_ended]


def test_a_wrong_token_is_not_made_up_for_by_the_network(fabric: Fabric, tmp_path: Path) -> None:
    identity = Identity(fabric.clock, at_once)
    identity.use([Tokens({})], networks={LINK: ((ip_network("127.0.0.0/8"), "deployed"),)})
    ask(fabric["hall"], identity)
    fabric.link("attic", "hall", token=stored(tmp_path, NOBODYS))
    assert not linked(fabric)


def test_a_proved_user_is_only_the_servers_of_that_user(fabric: Fabric, tmp_path: Path) -> None:
    hall = fabric["hall"]
    asks(hall)
    rules = '[[rule]]\nusers = ["attic"]\nlink = ["{0}"]\ntell = ["*"]\nobserve = ["*"]\n'
    hall.bus.access.policy = parse_policy(rules.format("other"), Path("policy.toml"), ("objects",))
    fabric.link("attic", "hall", token=stored(tmp_path, ATTICS))
    assert not linked(fabric)
    (first, *_) = hall.events(ev.AccessDenied)
    assert (first.actor, first.action, first.target) == ("attic", "link", "attic")
    hall.bus.access.policy = parse_policy(rules.format("attic"), Path("policy.toml"), ("objects",))
    assert linked(fabric)


def test_a_stolen_token_displaces_nobody_and_is_journaled(fabric: Fabric, tmp_path: Path) -> None:
    hall = fabric["hall"]
    asks(hall)
    fabric.link("attic", "hall", token=stored(tmp_path, ATTICS))
    assert linked(fabric)
    thief = Cable(fabric.clock, hall, 0.001, "203.0.113.5", Secured())
    stolen = Network(server_id="attic", reactor=fabric.clock, link_allow=EVERYWHERE)
    LinkDialer("stolen", thief, stolen.bus, fabric.clock, stored(tmp_path, ATTICS, "stolen")).startService()
    assert linked(fabric)
    assert ("attic", "token", None, "203.0.113.5:1") in logins(hall)
    closed = [(each.peer, each.reason) for each in hall.events(ev.SessionClosed)]
    assert set(closed) == {("203.0.113.5:1", "duplicate-link")}


def test_a_token_is_read_again(fabric: Fabric, tmp_path: Path) -> None:
    asks(fabric["hall"])
    token = stored(tmp_path, NOBODYS)
    fabric.link("attic", "hall", token=token)
    assert not linked(fabric)
    (tmp_path / "token").write_text(f"{ATTICS}\n")
    token.prepare()()
    assert linked(fabric)


@each_row(
    ("description", "said"),
    [
        ("tcp:127.0.0.1:1:tokenFile=DIR/none", "DIR/none: cannot be read: No such file or directory"),
        (
            "tcp:127.0.0.1:1:tokenFile=DIR/open",
            "others than its owner may use the token (mode 0644): chmod 600 DIR/open",
        ),
        ("tcp:127.0.0.1:1:tokenFile=DIR/empty", "DIR/empty: holds no token"),
        ("tcp:127.0.0.1:1:tokenFile=DIR/lines", "DIR/lines: holds no token"),
        ("tcp:127.0.0.1:1:tokenFile=DIR/long", "DIR/long: holds no token"),
        ("tcp:127.0.0.1:1:tokenFile=DIR/cut", "DIR/cut ends in the middle of a line: the file was cut off"),
        ("tcp:127.0.0.1:1:tokenFile=DIR", "Is a directory"),
        ("tcp:127.0.0.1:1:tokenFile=DIR/good:tokenFile=DIR/good", "'tokenFile' is set twice"),
        ("tcp:10.0.0.9:1:tokenFile=DIR/good", "the token would be sent in the clear: link over TLS"),
        (r"tcp:host=2001\:db8\:\:1:port=1:tokenFile=DIR/good", "the token would be sent in the clear"),
        ("tcp:127.0.0.1:1:tokenFile=DIR/good", None),
        (r"tcp:\:\:1:1:timeout=5:tokenFile=DIR/good", None),
        ("tcp:localhost:1:tokenFile=DIR/good:timeout=5", None),
        ("unix:/run/bus:tokenFile=DIR/good", None),
        (r"tcp:127.0.0.1:1:tokenFile=DIR/with\:colon", None),
    ],
)
def test_files_of_tokens(tmp_path_factory: pytest.TempPathFactory, description: str, said: str | None) -> None:
    directory = tmp_path_factory.mktemp("tokens")
    network = Network()
    for name, text in {
        "good": f"{ATTICS}\n",
        "with:colon": f"{ATTICS}\n",
        "open": f"{ATTICS}\n",
        "cut": ATTICS,
        "empty": "\n",
        "lines": f"{ATTICS}\n{HALLS}\n",
        "long": "x" * 2000,
    }.items():
        (directory / name).touch(0o600)
        (directory / name).write_text(text)
    (directory / "open").chmod(0o644)
    description = description.replace("DIR", str(directory))
    if said is None:
        make_dialer(description, network.bus, network.reactor)
        return
    with pytest.raises(ConfigError) as caught:
        make_dialer(description, network.bus, network.reactor)
    assert said.replace("DIR", str(directory)) in str(caught.value)
    assert ATTICS not in str(caught.value)


def test_the_log_says_that_this_server_refused_the_dialed_one(fabric: Fabric, tmp_path: Path) -> None:
    asks(fabric["attic"])
    said: list[str] = []

    def observe(event: LogEvent) -> None:
        said.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)
    try:
        fabric.link("attic", "hall")
        assert not linked(fabric)
    finally:
        globalLogPublisher.removeObserver(observe)
    assert any("the link did not come about: not-authenticated; the journal may say more" in each for each in said)
