"""``bussrv sub`` receives over every wire format that it speaks, from a real server."""

from __future__ import annotations

import pytest

from bussrv.cli.traffic.receiving import ReceivedPublication, receiving
from bussrv.client.objects import ObjectsClient
from tests.cli.conftest import Place, run
from tests.cli.talking import HERE, await_record, next_of

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("published", ["objects", "business", "inbus"])
@pytest.mark.parametrize("received", ["objects", "business", "inbus", "spp"])
def test_a_publication_crosses_from_every_format_to_every_other(place: Place, published: str, received: str) -> None:
    service = f"{published}-to-{received}"
    with receiving(HERE, received, [service]) as receiver, ObjectsClient(port=place.server.port("objects")) as holder:
        if received == "spp":
            # There can be no subscription over SPP before the service is there.
            holder.subscribe()
            holder.register(service)
            assert receiver.receive(10) == ReceivedPublication(service, b"")
        if received == "inbus":
            await_record(place, "subscription.added", service)
        assert run("pub", service, "channel 5", "--format", published, "--app-type", "7") == (0, "", "")
        found = next_of(receiver)
    assert (found.service, found.payload) == (service, b"channel 5")
    assert found.type in ("text/plain; charset=UTF-8", None)
    assert found.app_type == (None if received == "spp" else 7)


@pytest.mark.parametrize("received", ["objects", "business", "spp"])
def test_names_with_wildcards(place: Place, received: str) -> None:
    first, second = f"wild/{received}/1", f"wild/{received}/2"
    with ObjectsClient(port=place.server.port("objects")) as publisher:
        publisher.subscribe(subscriptions=["!*"])
        publisher.register(first)
        with receiving(HERE, received, [f"wild/{received}/?", "wild/[x]*"]) as receiver:
            # A request that nobody answers fails at once: the receiver takes none.
            assert run("request", "wild/nobody")[0] == 1
            for service in (second, f"wild/{received}/10", "wild/x"):
                publisher.register(service)
            # Over SPP, the state of a service comes with the subscription to it.
            states = {next_of(receiver) for _ in range(2 if received == "spp" else 0)}
            for service, payload in ((first, b"1"), ("wild/x", b"no"), (f"wild/{received}/10", b"no"), (second, b"2")):
                publisher.send({"type": "text/plain", "sender": service}, payload)
            found = {next_of(receiver) for _ in range(2)}
    assert states <= {ReceivedPublication(first, b""), ReceivedPublication(second, b"")}
    assert {each.payload for each in found} == {b"1", b"2"}
    assert {each.service for each in found} == {first, second}
