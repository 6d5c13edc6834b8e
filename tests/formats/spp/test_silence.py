"""SPP clients that never subscribed: they may wait for ever, as long as they are not too many."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from bussrv import events as ev
from bussrv.addresses import is_local
from bussrv.formats.spp.silence import GRACE, SilentClients
from bussrv.settings import Settings
from tests.formats.network import Network, Watcher
from tests.formats.spp.test_authentication import log_in
from tests.formats.spp.test_protocol import service
from tests.logins import asking
from tests.tables import each_row

HOSTS = ("10.0.0.1", "10.0.0.2", "127.0.0.1")
STEPS = st.one_of(
    st.tuples(st.just("enter"), st.sampled_from(HOSTS)),
    st.tuples(st.just("leave"), st.integers(0, 30)),
    st.tuples(st.just("wait"), st.sampled_from([GRACE / 2, GRACE])),
)


@given(st.lists(STEPS, max_size=60))
def test_the_oldest_goes_of_whoever_has_most(steps: list[tuple[str, Any]]) -> None:
    most, most_per_address = 6, 3
    gone: list[Any] = []
    clock = Clock()
    settings = Settings(spp_max_silent=most, spp_max_silent_per_address=most_per_address)
    silent: SilentClients[int] = SilentClients(settings, lambda client, refusal: gone.append(client), clock)
    arriving: list[tuple[float, int, str]] = []
    counted: list[tuple[int, str]] = []  # The model: in the order of their coming.
    expected: list[int] = []
    for number, (step, value) in enumerate(steps):
        if step == "enter":
            silent.enter(number, value)
            arriving.append((clock.seconds() + GRACE, number, value))
        elif step == "leave":
            silent.leave(value)
            arriving = [each for each in arriving if each[1] != value]
            counted = [each for each in counted if each[0] != value]
        else:
            clock.advance(value)
            for due, client, host in tuple(arriving):
                if due > clock.seconds():
                    continue
                arriving.remove((due, client, host))
                counted.append((client, host))
                hosts = [each for _, each in counted]
                fullest = next(iter(sorted(set(hosts), key=lambda each: -hosts.count(each))))
                if hosts.count(host) > most_per_address and not is_local(host):
                    fullest = host
                elif len(hosts) <= most:
                    continue
                ties = {each for each in hosts if hosts.count(each) == hosts.count(fullest)}
                candidates = [next(each for each, at in counted if at == tie) for tie in ties]
                victim = gone[len(expected)]
                assert victim in candidates if fullest != host else victim in [*candidates, victim]
                expected.append(victim)
                counted = [each for each in counted if each[0] != victim]
        assert gone == expected


def turned_out(network: Network) -> list[tuple[str, int, str | None]]:
    return [(event.limit, event.value, event.peer) for event in network.events(ev.LimitReached)]


def opened(network: Network, number: int, host: str = "10.0.0.1") -> list[Watcher]:
    watchers = [Watcher(network.connect("spp", host)) for _ in range(number)]
    network.reactor.advance(GRACE)
    return watchers


def are_open(watchers: list[Watcher]) -> list[bool]:
    return [watcher.connection.is_open for watcher in watchers]


def test_of_one_address_the_oldest_goes_and_the_newcomer_stays() -> None:
    network = Network(spp_max_silent_per_address=2)
    service(network, "tv")
    watchers = opened(network, 3) + opened(network, 1, "10.0.0.2")
    assert are_open(watchers) == [False, True, True, True]
    assert turned_out(network) == [("spp-max-silent-per-address", 2, "10.0.0.1:4711")]
    assert network.bus.counters["spp-max-silent-per-address"] == 1
    assert network.events(ev.SessionClosed)[-1].reason == "too-many-silent"
    network.reactor.advance(100_000)
    assert are_open(watchers) == [False, True, True, True]


def test_of_all_the_oldest_of_the_address_with_most_goes() -> None:
    network = Network(spp_max_silent=3, spp_max_silent_per_address=2)
    watchers = opened(network, 2, "127.0.0.1") + opened(network, 1, "10.0.0.9") + opened(network, 1, "10.0.0.8")
    assert are_open(watchers) == [False, True, True, True]
    assert turned_out(network) == [("spp-max-silent", 3, "127.0.0.1:4711")]


def test_this_machine_has_only_the_limit_for_all() -> None:
    network = Network(spp_max_silent=4, spp_max_silent_per_address=1)
    assert are_open(opened(network, 5, "::1")) == [False, True, True, True, True]


@each_row("noise", [b"", b"\0\0\0\0\0\0\0\0", b"\0\0\0\1\0\0\0\x09\0\0\0\5never"], ids=len)
def test_whoever_sends_what_means_nothing_is_silent(noise: bytes) -> None:
    network = Network(spp_max_silent_per_address=1)
    watchers = opened(network, 1)
    watchers[0].connection.send_bytes(noise)
    assert are_open(watchers + opened(network, 1)) == [False, True]


def test_whoever_subscribed_or_went_is_not_counted() -> None:
    network = Network(spp_max_silent_per_address=1)
    service(network, "tv")
    subscribed, late, gone = (network.watcher() for _ in range(3))
    subscribed.subscribe("tv")
    gone.connection.close()
    network.reactor.advance(GRACE)
    late.subscribe("tv")
    watchers = [subscribed, late, *opened(network, 1)]
    assert are_open(watchers) == [True, True, True]
    subscribed.unsubscribe("tv")
    assert are_open(watchers) == [True, True, True]


def test_whoever_has_to_authenticate_is_silent_until_then() -> None:
    network = asking(spp_max_silent_per_address=1)
    (known,) = opened(network, 1)
    log_in(known)
    (guessing,) = opened(network, 1)
    log_in(guessing, "x")
    assert are_open([known, guessing, *opened(network, 1)]) == [True, False, True]
