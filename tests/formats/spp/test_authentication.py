"""SPP clients that have to say who they are: what they are told and what is journaled; nobody waits for them."""

from bussrv import events as ev
from bussrv.formats.spp.protocol import STRANGERS_PACKET
from bussrv.policy.logins.checkers import Tokens
from bussrv.policy.logins.credentials import Password
from bussrv.policy.logins.tokens import TokenUse, digest
from bussrv.wire import spp
from bussrv.wire.spp import Info, Offer, Other
from tests.formats.network import Member, Network, Watcher
from tests.logins import Held, ask, asking
from tests.tables import each_row

ACCEPTED, REFUSED = (Other(33, code.to_bytes(4, "big")) for code in (0, 1))


def log_in(watcher: Watcher, secret: str = "s3cret", user: str = "ann") -> None:
    watcher.connection.send_bytes(spp.authenticate(user, secret))


def test_the_journal_says_who_it_was_and_never_the_secret() -> None:
    network = asking()
    watcher = network.watcher()
    log_in(watcher, "s3crets")
    log_in(watcher)
    (failed,) = network.events(ev.AuthFailed)
    (succeeded,) = network.events(ev.AuthSucceeded)
    assert (failed.reason, failed.protocol, failed.peer) == ("bad-credentials", "spp", "10.0.0.1:4711")
    assert (failed.actor, failed.claimed, failed.method) == (None, "ann", "password")
    session_id = watcher.connection.protocol.session_id
    assert (succeeded.actor, succeeded.method, succeeded.session) == ("ann", "password", session_id)
    session = network.registry.state.sessions[session_id]
    assert (session.actor, session.claimed) == ("ann", None)
    watcher.connection.close()
    (closed,) = network.events(ev.SessionClosed)
    assert (closed.actor, closed.claimed) == ("ann", None)
    assert not any("s3cret" in repr(record) for record in network.journal.records)


def test_a_tried_user_is_journaled_no_more_than_a_tried_name() -> None:
    network = asking()
    log_in(network.watcher(), "guess", "x" * 3_000)
    (failed,) = network.events(ev.AuthFailed)
    assert failed.claimed == "x" * 255


@each_row(("user", "secret"), [("ann", ""), ("ann", "S3cret"), ("bob", "s3cret"), ("", ""), ("ann ", "s3cret")])
def test_whoever_is_not_known_is_refused_and_may_try_again(user: str, secret: str) -> None:
    network = asking()
    watcher = network.watcher()
    for _ in range(2):
        log_in(watcher, secret, user)
    log_in(watcher)
    assert watcher.received() == [REFUSED, REFUSED, ACCEPTED]


def test_a_login_too_many_is_no_failure() -> None:
    network = asking()
    held = Held()
    ask(network, held)
    watcher = network.watcher()
    for number in range(4):
        log_in(watcher)
        held.refuse_unchecked(number)
    log_in(watcher)
    held.answer(4, right=True)
    assert watcher.received() == [Other(33, code.to_bytes(4, "big")) for code in (2, 2, 2, 2, 0)]
    assert network.bus.counters["too-many-logins"] == 4
    assert {failed.reason for failed in network.events(ev.AuthFailed)} == {"too-many-logins"}


def test_after_three_failures_the_connection_is_closed() -> None:
    network = asking()
    watcher, other = network.watcher(), network.watcher()
    log_in(other)
    watcher.connection.send_bytes(spp.authenticate("ann", "x") * 3 + spp.authenticate("ann", "s3cret"))
    assert watcher.received() == [REFUSED] * 3
    assert (watcher.connection.is_open, other.connection.is_open) == (False, True)
    assert network.events(ev.SessionClosed)[-1].reason == "authentication-failed"
    assert network.bus.counters["bad-credentials"] == 3


def test_once_accepted_a_client_stays_who_it_is() -> None:
    network = asking()
    watcher = network.watcher()
    log_in(watcher)
    for _ in range(5):
        log_in(watcher, "x")
    watcher.connection.send_bytes(spp.other(32, b""))
    assert watcher.received() == [ACCEPTED]
    assert network.bus.counters["spp-ignored"] == 6
    assert len(network.events(ev.AuthSucceeded, ev.AuthFailed)) == 1


@each_row(
    ("data", "reason"),
    [
        (b"", "packet-too-short"),
        (b"\0\0\0\4ann", "string-overruns-packet"),
        (b"\0\0\0\3ann", "packet-too-short"),
        (b"\0\0\0\3ann\0\0\0\2x", "string-overruns-packet"),
        (b"\0\0\0\1\xff\0\0\0\0", "bad-utf8"),
        (b"\0\0\0\3ann\0\0\0\1\xff", "bad-utf8"),
    ],
)
def test_malformed_credentials_end_the_connection(data: bytes, reason: str) -> None:
    network = asking()
    watcher = network.watcher()
    watcher.connection.send_bytes(spp.other(32, data))
    assert (watcher.received(), watcher.connection.is_open) == ([], False)
    assert network.events(ev.SessionClosed)[-1].reason == reason


def test_a_flood_of_failures_does_not_fill_the_journal() -> None:
    network = asking()
    for number in range(200):
        watcher = Watcher(network.connect("spp", "127.0.0.1"))
        for _ in range(3):
            log_in(watcher, "x", str(number))
    assert len(network.events(ev.AuthFailed)) == 50
    network.reactor.advance(60)
    log_in(Watcher(network.connect("spp", "127.0.0.1")), "x")
    assert network.events(ev.AuthFailed)[-1].suppressed == 550


# While a secret is being checked.


def test_only_what_the_client_sends_meanwhile_waits() -> None:
    held = Held()
    network = Network()
    ask(network, held)
    member = Member(network.connect("objects"))
    member.send({"event": "routing/subscribe", "receive_mode": "none", "user": "joe", "secret": "x"})
    held.answer(0, right=True)
    member.send({"event": "services/register", "name": "tv"})
    watcher, other = network.watcher(), network.watcher()
    watcher.connection.send_bytes(spp.authenticate("ann", "s3cret") + spp.subscribe("tv"))
    watcher.subscribe("tv")
    assert held.asked[1:] == [(Password("ann", b"s3cret"), "10.0.0.1:4711")]
    assert watcher.connection.transport.producerState == "paused"
    log_in(other)
    held.answer(2, right=True)
    member.send({"type": "a/b"}, b"1")
    assert (watcher.received(), other.received()) == ([], [ACCEPTED, Offer("tv")])
    held.answer(1, right=True)
    assert watcher.received() == [ACCEPTED, Offer("tv"), Info("tv", b"1"), Info("tv", b"1")]
    assert network.events(ev.SubscriptionRefused) == []


@each_row("answer", [True, False])
def test_a_client_that_leaves_meanwhile_is_not_answered(answer: bool) -> None:
    held = Held()
    network = Network()
    ask(network, held)
    watcher = network.watcher()
    log_in(watcher)
    watcher.connection.close()
    held.answer(0, right=answer)
    assert network.events(ev.AuthSucceeded, ev.AuthFailed) == []
    assert len(network.events(ev.SessionClosed)) == 1


def test_a_client_that_only_stops_sending_is_answered() -> None:
    held = Held()
    network = Network()
    ask(network, held)
    watcher = network.watcher()
    log_in(watcher)
    watcher.connection.protocol.readConnectionLost()
    held.answer(0, right=True)
    assert (watcher.received(), watcher.connection.is_open) == ([ACCEPTED], False)


def test_endless_logins_and_departures_do_not_fill_the_journal() -> None:
    network = asking(journal_session_rate=1000, journal_session_burst=10_000)
    last = network.journal.bytes_accepted
    for _ in range(1000):
        watcher = network.watcher()
        log_in(watcher)
        watcher.connection.close()
        last = network.journal.bytes_accepted
    # Openings and closings beside, 50 of each at once.
    assert last < 60_000
    waiting = network.watcher()
    log_in(waiting)
    assert ACCEPTED not in waiting.received()
    network.reactor.pump([1.0] * 60)
    assert ACCEPTED in waiting.received()


def test_a_token_is_a_secret_without_a_user() -> None:
    network = asking()
    network.bus.identity.use([Tokens({digest("t0ken"): TokenUse("camera")})])
    watcher = network.watcher()
    log_in(watcher, "t0ken", "camera")
    log_in(watcher, "none", "")
    log_in(watcher, "t0ken", "")
    assert watcher.received() == [REFUSED, REFUSED, ACCEPTED]
    assert [each.method for each in network.events(ev.AuthFailed)] == ["password", "token"]
    (succeeded,) = network.events(ev.AuthSucceeded)
    assert (succeeded.actor, succeeded.method) == ("camera", "token")


def test_a_stranger_may_send_small_packets_only() -> None:
    network = asking()
    known, stranger = network.watcher(), network.watcher()
    log_in(known)
    known.received()
    for each in (known, stranger):
        each.connection.send_bytes(spp.other(40, bytes(STRANGERS_PACKET)) + spp.other(40, bytes(STRANGERS_PACKET + 1)))
    assert (known.connection.is_open, stranger.connection.is_open) == (True, False)
    assert network.events(ev.SessionClosed)[-1].reason == "packet-too-large"
    assert Network(max_packet=10).watcher().connection.is_open


def test_a_user_removed_while_its_login_waits_is_refused() -> None:
    network = asking(journal_session_rate=1000, journal_session_burst=10_000)
    waiting = network.watcher()
    log_in(waiting)
    while ACCEPTED in waiting.received():
        waiting = network.watcher()
        log_in(waiting)
    network.bus.identity.use([])
    network.reactor.pump([1.0] * 60)
    assert REFUSED in waiting.received()
    session = network.registry.state.sessions[waiting.connection.protocol.session_id]
    assert session.actor is None
    assert network.events(ev.AuthFailed)[-1].claimed == "ann"
