"""Slow SPP clients: the newest state of each service, and everything else in order."""

from hypothesis import given
from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.bus.services.hosted import Hosted
from bussrv.memory.bundle import Bundle
from bussrv.wire import spp
from bussrv.wire.spp import Info, Offer, Removed
from tests.formats.network import Network, Watcher
from tests.formats.spp.test_protocol import service
from tests.tables import each_row


def slow_watcher(network: Network, *services: str) -> Watcher:
    """A watcher of these services whose transport is full."""
    watcher = network.watcher()
    for name in services:
        watcher.subscribe(name)
    watcher.received()
    watcher.connection.protocol.link.pauseProducing()
    return watcher


def drained(watcher: Watcher) -> list[spp.Event]:
    watcher.connection.protocol.link.resumeProducing()
    return watcher.received()


def packets(*each: bytes) -> Bundle:
    return Bundle(each)


def test_one_chunk_of_many_updates_is_coalesced_too() -> None:
    network = Network(slow_spp="coalesce")
    member = service(network, "tv")
    slow = slow_watcher(network, "tv")
    member.connection.send_bytes(b"".join(b'{"type":"a/b","size":1}\0%d' % number for number in range(5)))
    assert drained(slow) == [Info("tv", b"4")]


def test_a_client_that_is_not_slow_misses_nothing() -> None:
    network = Network(slow_spp="coalesce")
    member = service(network, "tv")
    slow = slow_watcher(network, "tv")
    drained(slow)
    member.connection.send_bytes(b'{"type":"a/b","size":1}\x000{"type":"a/b","size":1}\x001')
    assert slow.messages() == [b"0", b"1"]
    assert network.bus.counters["spp-coalesced"] == 0


def test_offers_and_removals_stay_and_what_is_around_them_too() -> None:
    network = Network(slow_spp="coalesce")
    member = service(network, "tv")
    slow = slow_watcher(network, "tv")
    for payload in (b"1", b"2"):
        member.send({"type": "a/b"}, payload)
    member.send({"event": "services/unregister"})
    service(network, "door")
    assert drained(slow) == [Info("tv", b"2"), Removed("tv"), Offer("door")]
    slow.connection.protocol.link.pauseProducing()
    again = service(network, "tv")
    again.send({"type": "a/b"}, b"3")
    again.send({"event": "services/unregister"})
    another = service(network, "tv")
    another.send({"type": "a/b"}, b"4")
    assert drained(slow) == [Offer("tv"), Removed("tv"), Offer("tv"), Info("tv", b"4")]


def test_a_snapshot_is_a_state_like_any_other() -> None:
    network = Network(slow_spp="coalesce")
    member = service(network, "tv")
    slow = slow_watcher(network)
    slow.subscribe("tv")
    member.send({"type": "a/b"}, b"1")
    slow.subscribe("tv")
    assert drained(slow) == [Info("tv", b"1")]
    assert network.bus.counters["spp-coalesced"] == 2


def test_changes_of_services_of_the_server_are_all_kept() -> None:
    network = Network(slow_spp="coalesce")
    network.bus.host("bus/registry", Hosted("application/json", lambda _: b"{}", is_filtered=False))
    slow = slow_watcher(network)
    backlog = slow.connection.protocol.link._backlog
    for number in range(3):
        backlog.put(packets(spp.info("bus/registry", b"%d" % number), spp.info("tv", b"%d" % number)))
    assert drained(slow) == [*(Info("bus/registry", b"%d" % number) for number in range(3)), Info("tv", b"2")]


def test_what_waits_for_one_who_never_reads_does_not_grow() -> None:
    network = Network(slow_spp="coalesce", max_outbound=10_000)
    member = service(network, "tv")
    slow = slow_watcher(network, "tv")
    for number in range(1000):
        member.send({"type": "a/b"}, b"%04d" % number * 100)
    backlog = slow.connection.protocol.link._backlog
    assert (len(backlog), backlog.size) == (1, len(spp.info("tv", b"0999" * 100)))
    network.reactor.advance(0)
    assert slow.connection.is_open
    assert drained(slow) == [Info("tv", b"0999" * 100)]


def test_a_client_that_still_lets_too_much_wait_is_disconnected() -> None:
    network = Network(slow_spp="coalesce", max_outbound=1000)
    names = [f"s{number}" for number in range(20)]
    member = service(network, *names)
    slow, fast = slow_watcher(network, *names), network.watcher()
    backlog = slow.connection.protocol.link._backlog
    for name in names:
        member.send({"type": "a/b", "sender": name}, b"x" * 100)
    network.reactor.advance(0)
    assert (slow.connection.transport.aborted, fast.connection.is_open) == (True, True)
    assert len(backlog) == 0
    assert network.events(ev.SessionClosed)[-1].reason == "slow-consumer"


def test_the_journal_counts_what_was_sent_and_not_what_went() -> None:
    network = Network(slow_spp="coalesce")
    member = service(network, "tv")
    watcher = network.watcher()
    watcher.subscribe("tv")
    watcher.connection.protocol.link.pauseProducing()
    for _ in range(10):
        member.send({"type": "a/b"}, b"x")
    watcher.connection.protocol.link.resumeProducing()
    sent = watcher.connection.take()
    watcher.connection.close()
    closed = network.events(ev.SessionClosed)[-1]
    assert isinstance(closed, ev.SessionClosed)
    assert (closed.objects_out, closed.bytes_out) == (3, len(sent))


SERVICES = st.sampled_from(["a", "b"])
SENT = st.one_of(
    st.builds(Offer, SERVICES),
    st.builds(Removed, SERVICES),
    st.builds(Info, SERVICES, st.binary(max_size=3)),
    st.just(spp.Other(33, bytes(4))),
)


def encoded(event: spp.Event) -> bytes:
    if isinstance(event, Info):
        return spp.info(event.service, event.message)
    if isinstance(event, Offer):
        return spp.offer(event.service)
    return spp.removed(event.service) if isinstance(event, Removed) else spp.auth_result(0)


@given(st.lists(st.lists(SENT, min_size=1, max_size=5), max_size=8), st.data())
def test_only_states_that_newer_ones_follow_are_left_out(bundles: list[list[spp.Event]], data: st.DataObject) -> None:
    watcher = slow_watcher(Network(slow_spp="coalesce"))
    backlog = watcher.connection.protocol.link._backlog
    waiting: list[spp.Event] = []
    taken: list[bytes] = []
    expected: list[bytes] = []
    for bundle in bundles:
        backlog.put(packets(*map(encoded, bundle)))
        for event in bundle:
            if isinstance(event, Info):
                waiting = [each for each in waiting if not (isinstance(each, Info) and each.service == event.service)]
            waiting.append(event)
        for _ in range(data.draw(st.integers(0, min(2, len(waiting))))):
            (packet,) = backlog.pieces(len(encoded(waiting[0])))
            backlog.sent(len(packet))
            taken.append(bytes(packet))
            expected.append(encoded(waiting.pop(0)))
        assert len(backlog) == len(waiting)
        assert backlog.size == sum(len(encoded(each)) for each in waiting)
    assert taken == expected


@each_row("packet", [spp.offer("tv"), spp.removed("tv"), spp.auth_result(0), spp.other(0x1000, b"x")])
def test_only_info_packets_have_a_service_to_be_coalesced_by(packet: bytes) -> None:
    assert spp.service_of_info(packet) is None
    assert spp.service_of_info(spp.info("tü", packet)) == "tü"
