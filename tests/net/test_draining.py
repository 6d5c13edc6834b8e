"""Draining a port: clients are told, and their sessions end one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from bussrv import events as ev
from bussrv.net.draining import Drain
from tests.formats.network import Connection, Member, Network

SECONDS = 5.0
CLIENTS = 10


def drained(network: Network, name: str) -> Drain:
    clients = [each for each in network.factory(name).protocols if not each.is_link]
    return Drain(clients, SECONDS, network.bus.slices, network.reactor)


def advance(network: Network, seconds: float) -> None:
    network.reactor.pump([0.01] * round(seconds / 0.01))


@pytest.mark.parametrize("join", [Network.member, Network.business], ids=["objects", "business"])
def test_members_are_told_and_end_one_after_the_other(join: Any) -> None:
    network = Network()
    members: list[Member] = [join(network) for _ in range(CLIENTS)]
    for member in members:
        member.received()
    stranger = network.connect(members[0].connection.protocol.FORMAT)
    drain = drained(network, members[0].connection.protocol.FORMAT)
    for member in members:
        assert member.heads()[0] == {"event": "abboe/close/notify", "reason": "server-stopped", "seconds": SECONDS}
    assert stranger.take() == b""
    for half in range(1, CLIENTS + 1):
        advance(network, SECONDS / CLIENTS)
        there = len([each for each in members if each.connection.is_open])
        assert abs(there - (CLIENTS - half)) <= 1
    advance(network, 0.1)
    assert not any(each.connection.is_open for each in members)
    assert (stranger.is_open, drain.done.called) == (False, True)
    assert {event.reason for event in network.events(ev.SessionClosed)} == {"server-stopped"}


def test_it_is_done_when_everybody_has_left() -> None:
    network = Network()
    members = [network.member() for _ in range(CLIENTS)]
    drain = drained(network, "objects")
    for member in members:
        member.connection.close()
    advance(network, 0.1)
    assert drain.done.called
    assert {event.reason for event in network.events(ev.SessionClosed)} == {"client-closed"}


def test_where_nobody_is_it_is_done_at_once() -> None:
    assert drained(Network(), "objects").done.called


def test_spp_has_no_words_for_it() -> None:
    network = Network()
    watcher: Connection = network.watcher().connection
    watcher.take()
    drain = drained(network, "spp")
    assert watcher.take() == b""
    assert watcher.is_open
    advance(network, SECONDS + 0.1)
    assert (watcher.is_open, drain.done.called) == (False, True)


def test_a_linked_server_is_neither_told_nor_left() -> None:
    network = Network()
    server, member = network.server(), network.member()
    server.received()
    drain = drained(network, "objects")
    advance(network, SECONDS + 0.1)
    assert (server.connection.is_open, member.connection.is_open, drain.done.called) == (True, False, True)
    assert "abboe/close/notify" not in server.names()
