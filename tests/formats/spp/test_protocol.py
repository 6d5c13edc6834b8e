"""SPP, sentence by sentence, on transports that are strings."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.formats.network import Member, Network


def service(network: Network, *names: str) -> Member:
    member = network.member(receive_mode="none")
    for name in names:
        member.send({"event": "services/register", "name": name})
    return member


@given(st.lists(st.sampled_from(["publish", "subscribe", "release"]), max_size=30))
def test_no_gap_and_no_repetition_between_snapshot_and_updates(steps: list[str]) -> None:
    network = Network()
    member = service(network, "tv")
    watcher = network.watcher()
    network.journal.hold()
    published = 0
    for step in steps:
        if step == "publish":
            published += 1
            member.send({"type": "a/b"}, b"%d" % published)
        elif step == "subscribe":
            watcher.subscribe("tv")
        else:
            network.journal.release()
            network.journal.hold()
    network.journal.release()
    member.send({"type": "a/b"}, b"%d" % (published + 1))
    numbers = [int(message or b"0") for message in watcher.messages()]
    if "subscribe" in steps:
        assert numbers[-1] == published + 1
    for before, after in pairwise(numbers):
        assert after in (before, before + 1)
    assert sum(a == b for a, b in pairwise(numbers)) <= max(0, steps.count("subscribe") - 1)


def test_a_change_that_cannot_be_written_is_silent() -> None:
    network = Network()
    service(network, "tv")
    watcher = network.watcher()
    watcher.received()
    network.journal.fail("no space left")
    watcher.subscribe("tv")
    assert watcher.received() == []
    assert network.bus.counters["journal-unavailable"] == 1
    network.journal.fail(None)
    watcher.subscribe("tv")
    assert watcher.messages() == [b""]
