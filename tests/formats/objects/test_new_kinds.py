"""Objects of ever new types: many groups are asked what they want, so few of these objects are routed in one slice."""

import pytest

from bussrv.bus.routing import batch
from tests.formats.network import Network

MEMBERS = 100
OBJECTS = 200


@pytest.mark.parametrize("ending", ["}", " }"], ids=["plain", "not plain"])
@pytest.mark.parametrize("is_linked", [False, True], ids=["member", "server"])
def test_a_batch_ends_after_many_groups_were_asked(ending, is_linked, monkeypatch):
    network = Network()
    for number in range(MEMBERS):
        network.member(types=[f"nothing/{number}"])
    receiver = network.member(types=["new/*"])
    sender = network.server() if is_linked else network.member(receive_mode="no_echo", types="none")
    route = ',"route":["far","cellar"]' if is_linked else ""
    receiver.heads()
    asked = []
    is_over = sender.connection.protocol.slice_is_over

    def looked():
        asked.append(network.bus._receivers.groups_asked)
        return is_over()

    monkeypatch.setattr(sender.connection.protocol, "slice_is_over", looked)
    before = network.bus._receivers.groups_asked
    texts = [f'{{"type":"new/{number}","id":"{number}"{route}{ending}\0' for number in range(OBJECTS)]
    sender.connection.send_bytes("".join(texts).encode())
    assert [head["type"] for head in receiver.heads()] == [f"new/{number}" for number in range(OBJECTS)]
    assert asked[-1] - before >= OBJECTS * MEMBERS
    most = max(after - earlier for earlier, after in zip([before, *asked], asked, strict=False))
    assert most <= (batch.MOST_NEW_PLANS + 2) * (MEMBERS + 2)
