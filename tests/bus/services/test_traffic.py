"""Publications are counted by service, in bounded memory."""

from __future__ import annotations

from bussrv.bus.services.traffic import MOST_SERVICES, ServiceTraffic
from bussrv.values import Publication
from tests.bus.harness import BusHarness, member


def test_the_busiest_services_outlive_any_number_of_others() -> None:
    traffic = ServiceTraffic()
    for number in range(5 * MOST_SERVICES):
        traffic.add(f"other-{number}", 1, 1)
        traffic.add("tv", 2, 20)
    counts = traffic.take()
    assert counts["tv"] == [10 * MOST_SERVICES, 100 * MOST_SERVICES]
    assert len(counts) <= MOST_SERVICES
    assert traffic.take() == {}


def test_each_publication_counts_once_however_it_comes() -> None:
    """Of a member by itself and in a batch, and of another wire format, with payloads of one size and of several."""
    server = BusHarness()
    tv, session = member(server), server.open("inbus")
    tv.register("tv")
    for payload in (b"abc", b"defg"):
        tv.send({"type": "text/plain"}, payload)
    one = Publication("lamp", "text/plain", b"abc", 1)
    server.bus.publish(session.id, one)
    server.bus.publish_many(session.id, [one, one])
    assert server.bus.service_traffic.take() == {"tv": [2, 7], "lamp": [3, 9]}
