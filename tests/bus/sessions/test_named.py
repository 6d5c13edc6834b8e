"""Names by which clients come back."""

from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred

from bussrv.bus.sessions.named import NamedClients
from bussrv.bus.sessions.unreachable import Unreachable
from bussrv.errors import Refused
from tests.formats.network import Network


class Client:
    """A client with a session; ``left`` fires when it has gone."""

    def __init__(self, network: Network, actor: str | None = None) -> None:
        self.session_id = network.bus.open("mqtt", "10.0.0.1:1", Unreachable(), actor=actor).id
        self.ends: list[str] = []
        self.left: Deferred[None] = Deferred()

    def end(self, reason: str) -> None:
        self.ends.append(reason)

    def has_left(self) -> Deferred[None]:
        return self.left


def claimed(names: NamedClients, client: Client) -> list[Refused | None]:
    """What came of it: nothing yet, or ``None``, or a refusal."""
    outcome: list[Refused | None] = []
    Deferred.fromCoroutine(names.claim("lamp", client)).addCallbacks(
        outcome.append, lambda failure: outcome.append(failure.value)
    )
    return outcome


def test_a_name_goes_to_the_next_client_when_the_former_has_left() -> None:
    network = Network()
    names = NamedClients(network.bus, lambda _: None)
    first, second = Client(network), Client(network)
    assert (claimed(names, first), "lamp" in names) == ([None], True)
    outcome = claimed(names, second)
    assert (first.ends, second.ends, outcome) == (["session-taken-over"], [], [])
    names.left("lamp", first)
    first.left.callback(None)
    assert (outcome, "lamp" in names) == ([None], True)
    names.left("lamp", second)
    assert "lamp" not in names


@pytest.mark.parametrize("is_connected", [True, False])
@pytest.mark.parametrize(("owner", "other"), [("ann", "bob"), ("ann", None), (None, "bob")])
def test_a_name_belongs_to_its_user(owner: str | None, other: str | None, is_connected: bool) -> None:
    network = Network()
    first, own, stranger = Client(network, owner), Client(network, owner), Client(network, other)
    names = NamedClients(network.bus, lambda _: None if is_connected else first.session_id)
    if is_connected:
        assert claimed(names, first) == [None]
    (refusal,) = claimed(names, stranger)
    assert refusal is not None
    assert (refusal.reason, first.ends) == ("client-id-taken", [])
    outcome = claimed(names, own)
    first.left.callback(None)
    assert outcome == [None]
