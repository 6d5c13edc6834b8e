"""The times of delivery: of what the server needed, not of what clients waited for on their own account."""

from __future__ import annotations

from typing import Any

from bussrv.formats.objects.object_system import ObjectsProtocol
from tests.formats.network import Network

OBJECT: dict[str, Any] = {"type": "a/b", "id": "1"}


def counts(network: Network) -> tuple[int, float]:
    return sum(network.bus.delivery.counts), network.bus.delivery.total


def test_each_delivery_counts_once_however_many_get_it() -> None:
    network = Network(announce="off")
    members = [network.member() for _ in range(5)]
    before, _ = counts(network)
    for number in range(1, 4):
        members[0].connection.send_bytes(b'{"type":"a/b"}\0' * 100)
        network.reactor.advance(0)
        assert counts(network) == (before + number, 0.0)
        assert len(members[4].received()) == 100
    # Nobody is sent anything.
    alone = Network(announce="off").member(receive_mode="no_echo")
    alone.send(OBJECT)
    assert counts(network)[0] == before + 3


def test_input_that_waits_for_a_slice_is_timed_from_arrival(monkeypatch: Any) -> None:
    network = Network(announce="off", slice_seconds=0.002)
    sender, receiver = network.member(), network.member()
    before, _ = counts(network)
    served = ObjectsProtocol.received

    def slowly(self: ObjectsProtocol, event: Any) -> None:
        network.reactor.rightNow += 0.01
        served(self, event)

    monkeypatch.setattr(ObjectsProtocol, "received", slowly)
    monkeypatch.setattr(ObjectsProtocol, "next_event", lambda self: self.objects.next_event())
    sender.connection.send_bytes(b'{"type":"a/b"}\0' * 3)
    network.reactor.pump([0] * 10)
    assert len(receiver.received()) == 3
    sent, seconds = counts(network)
    # The three objects had a slice each. The last one waited for those of the two others.
    assert (sent - before, round(seconds, 3)) == (3, 0.06)


def test_waiting_for_the_journal_is_no_time_of_delivery() -> None:
    network = Network(announce="off")
    sender, receiver = network.member(), network.member()
    network.journal.hold()
    sender.send({"event": "services/register", "name": "tv"})
    sender.send(OBJECT)
    network.reactor.advance(5)
    assert receiver.received() == []
    network.journal.release()
    assert receiver.heads()[0]["type"] == "a/b"
    assert counts(network)[1] == 0.0
